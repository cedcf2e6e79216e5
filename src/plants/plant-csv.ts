import { type CsvCell, type CsvRow, csvFault, loadCsvWriter, unguarded } from '../csv.ts'
import { ApiError } from '../errors.ts'
import type { Scripts } from '../storage/scripts.ts'
import { readDetailedAfter } from './details.ts'
import { checkedPlant } from './plant.ts'
import type { NewPlant } from './schemas.ts'

/** The columns of a CSV file with plants. The plants of a file are added as by `POST /plants`, so it has no times and no photos. */
const columns = ['id', 'name', 'tag', 'species', 'place', 'light', 'acquired', 'notes', 'archived'] as const
type Column = (typeof columns)[number]

/** The content type of a file. */
export const csvType = 'text/csv; charset=utf-8; header=present'

const plantsPerRead = 100
/** A number below every possible id. */
const belowAllIds = -(2 ** 53)

/** The account's own plants as the texts of a file. A plant that exists during the whole read is in the file once. */
export async function* csvTexts(scripts: Scripts, account: number): AsyncGenerator<string> {
  const write = await loadCsvWriter()
  yield write([columns])
  let after = belowAllIds
  for (;;) {
    const from = after
    const plants = await scripts.readPortion(() => readDetailedAfter(account, from, plantsPerRead))
    const last = plants.at(-1)
    if (!last) return
    yield write(plants.map(csvRowOf))
    after = last.id
  }
}

/** A plant as a row of cells. */
function csvRowOf(plant: NewPlant & { readonly id: number }): readonly CsvCell[] {
  return columns.map((name) => (name === 'archived' ? (plant.archived ? 'true' : null) : (plant[name] ?? null)))
}

/** The columns of a file, found by the names in its header, in any order. */
export class PlantColumns {
  readonly #indexes: ReadonlyMap<Column, number>
  readonly #count: number
  /** The names of columns that plants do not have. */
  readonly ignored: readonly string[]

  /** @throws ApiError 400 if the column of names is missing, or a column is there twice */
  constructor({ line, cells }: CsvRow) {
    const names = cells.map((cell) => cell.trim())
    const known = columns.filter((name) => names.includes(name))
    const twice = known.find((name) => names.indexOf(name) !== names.lastIndexOf(name))
    if (twice !== undefined) throw csvFault(line, `the column "${twice}" is there twice. Remove one of them`)
    if (!known.includes('name')) {
      throw csvFault(
        line,
        `the header has no column "name". Its columns may be ${columns.join(', ')}, with commas between them`,
      )
    }
    this.#indexes = new Map(known.map((name) => [name, names.indexOf(name)]))
    this.#count = names.length
    this.ignored = [...new Set(names.filter((name) => !known.some((each) => each === name)))]
  }

  /** Reads the plant of a row. @throws ApiError 400 that names the line */
  read({ line, cells }: CsvRow): NewPlant {
    if (cells.length !== this.#count) {
      throw csvFault(line, `the row has ${cells.length} cells, and the header has ${this.#count}. Give both as many`)
    }
    const textOf = (name: Column): string | undefined => {
      const cell = cells[this.#indexes.get(name) ?? -1] ?? ''
      return cell.trim() === '' ? undefined : unguarded(cell)
    }
    const idCell = cells[this.#indexes.get('id') ?? -1]?.trim() ?? ''
    const id = /^-?\d{1,16}$/.test(idCell) ? Number(idCell) || 0 : undefined
    if (idCell !== '' && !Number.isSafeInteger(id)) {
      throw csvFault(line, 'the id is no whole number from -(2^53-1) to 2^53-1. Correct it, or leave it empty')
    }
    const archived = textOf('archived')?.trim().toLowerCase() ?? 'false'
    if (archived !== 'true' && archived !== 'false')
      throw csvFault(line, 'archived is neither true nor false. Correct it')
    try {
      return checkedPlant({
        name: textOf('name') ?? '',
        id,
        tag: textOf('tag'),
        species: textOf('species'),
        place: textOf('place'),
        light: textOf('light'),
        acquired: textOf('acquired')?.trim(),
        notes: textOf('notes'),
        archived: archived === 'true',
      })
    } catch (error) {
      throw error instanceof ApiError ? atLine(line, error) : error
    }
  }
}

/** The error of a plant, with the line of its row. */
export function atLine(line: number, error: ApiError): ApiError {
  return error.withParam(error.param, `Line ${line}: ${error.message}`)
}
