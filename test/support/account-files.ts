import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { headerLine, plantLine, readAccountFile } from '../../src/plants/account-file.ts'
import { type Imported, importFile } from '../../src/plants/importing.ts'
import { InputFile } from '../../src/plants/input-file.ts'
import type { PortablePlant } from '../../src/plants/portable.ts'
import type { PlantTransfers } from '../../src/plants/transfers.ts'
import { temporaryFolder } from './service.ts'

/** The text of an account's file. */
export function fileOf(plants: readonly PortablePlant[]): string {
  return headerLine('ann', plants.length) + plants.map(plantLine).join('')
}

/** The plants of an account's file. @param pieceLength bytes that are read at once */
export async function plantsIn(
  text: string,
  pieceLength = Number.POSITIVE_INFINITY,
): Promise<readonly PortablePlant[]> {
  const bytes = Buffer.from(text)
  async function* pieces() {
    for (let start = 0; start < bytes.length; start += pieceLength) yield bytes.subarray(start, start + pieceLength)
  }
  const found: PortablePlant[] = []
  for await (const plants of readAccountFile(pieces())) found.push(...plants)
  return found
}

/** All plants of an account, as an export tells of them. */
export async function exportedFrom(transfers: PlantTransfers, account: number): Promise<readonly PortablePlant[]> {
  let text = ''
  const begin = (count: number) => {
    text = headerLine('ann', count)
  }
  const add = (lines: string) => {
    text += lines
  }
  await transfers.exportPlants(account, { begin, add, end() {} })
  return plantsIn(text)
}

/** Imports plants into an account, as the command does it with their file. */
export async function importInto(
  transfers: PlantTransfers,
  id: number,
  plants: readonly PortablePlant[],
): Promise<Imported> {
  const { path, remove } = temporaryFolder()
  const name = join(path, 'plants.jsonl')
  writeFileSync(name, fileOf(plants))
  const file = await InputFile.open(name, path)
  try {
    const account = { id, name: 'ann', created: 0, suspended: null, limits: {}, models: null }
    return await importFile(transfers, account, file)
  } finally {
    await file.close()
    remove()
  }
}
