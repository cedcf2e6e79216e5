import { AccessError } from '../access/access.ts'
import { readCsv } from '../csv.ts'
import { ApiError } from '../errors.ts'
import { headerLine, plantLine } from './account-file.ts'
import type { ImportSource, InputFile } from './input-file.ts'
import { PlantColumns } from './plant-csv.ts'
import type { NewPlant } from './schemas.ts'
import type { PlantTransfers } from './transfers.ts'

/**
 * A CSV file with plants, read as the file of an account. The plants without an id get ids above all others of the file and of the
 * account, in their order. An interrupted import has written the plant with the highest id, so the next run gives the same ids.
 */
export class CsvSource implements ImportSource {
  readonly #file: InputFile
  #plants = 0
  /** The highest id before those that are assigned. */
  #highest = 0
  /** The names of columns that plants do not have. */
  ignored: readonly string[] = []

  private constructor(file: InputFile) {
    this.#file = file
  }

  /** Reads the whole file once. @throws AccessError that names the line of the first fault */
  static async open(file: InputFile, transfers: PlantTransfers, account: number): Promise<CsvSource> {
    const source = new CsvSource(file)
    let highest = 0
    let withoutId = 0
    for await (const plants of source.#read()) {
      source.#plants += plants.length
      for (const { id } of plants) {
        if (id === undefined) withoutId++
        else highest = Math.max(highest, id)
      }
    }
    const known = await transfers.findImport({ account, digest: file.digest })
    const isBegun = withoutId > 0 && typeof known?.highest === 'number'
    source.#highest = isBegun ? known.highest - withoutId : Math.max(highest, await transfers.highestId(account))
    if (source.#highest + withoutId <= Number.MAX_SAFE_INTEGER) return source
    throw new AccessError('There are fewer free ids above the highest one than plants without an id. Give them ids.')
  }

  get digest(): string {
    return this.#file.digest
  }

  placeOf(index: number): string {
    return `Row ${index + 2}`
  }

  async *bytes(): AsyncGenerator<Buffer> {
    let next = this.#highest
    yield Buffer.from(headerLine('', this.#plants))
    for await (const plants of this.#read()) {
      const lines = plants.map((plant) => plantLine({ ...plant, id: plant.id ?? ++next, version: 1 }))
      yield Buffer.from(lines.join(''))
    }
  }

  async *#read(): AsyncGenerator<readonly NewPlant[]> {
    let columns: PlantColumns | undefined
    try {
      for await (const rows of readCsv(this.#file.bytes())) {
        const [header] = rows
        const isFirst = columns === undefined
        if (header) columns ??= new PlantColumns(header)
        this.ignored = columns?.ignored ?? []
        yield rows.slice(isFirst ? 1 : 0).flatMap((row) => columns?.read(row) ?? [])
      }
    } catch (error) {
      throw error instanceof ApiError ? new AccessError(error.message) : error
    }
    if (!columns) throw new AccessError('Line 1: the file is empty. Begin it with the names of the columns.')
  }
}
