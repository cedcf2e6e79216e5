import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { headerLine, plantLine, readAccountFile } from '../../src/plants/account-file.ts'
import { type Imported, importFile } from '../../src/plants/importing.ts'
import { InputFile } from '../../src/plants/input-file.ts'
import type { PortablePlant } from '../../src/plants/rows.ts'
import type { PlantTransfers } from '../../src/plants/transfers.ts'
import type { Stores } from '../../src/stores/stores.ts'
import { conservatory, type Ended } from './command.ts'
import { temporaryFolder } from './service.ts'
import { storesForThisTest } from './test-database.ts'

/** Plants that are hard to encode: the lowest and the highest id, quotation marks, line separators, and emoji. */
export const hardPlants = [
  { id: -5, name: 'Fern "the elder"', tag: 'shade' },
  { id: 1, name: 'Monstera' },
  { id: 9007199254740991, name: '🌵 \u2028 cactus', tag: '🏜️' },
]

/** Stores over a data folder that has the accounts ann and bob. Commands can use the same folder. */
export interface AccountsHere {
  readonly folder: string
  readonly stores: Stores
  run(...args: readonly string[]): Promise<Ended>
}

/** Makes the accounts ann and bob in a data folder. The stores close at the end of the test. */
export async function accountsIn(folder: string): Promise<AccountsHere> {
  const stores = await storesForThisTest(folder)
  for (const name of ['ann', 'bob']) await stores.access.createAccount(name)
  return { folder, stores, run: (...args) => conservatory(args, { DATA_DIR: folder }) }
}

/** The id of an account; 0 if no account has this name. */
export async function idOf({ stores }: AccountsHere, account: string): Promise<number> {
  return (await stores.access.listAccounts()).find(({ name }) => name === account)?.id ?? 0
}

/** The plants of an account. */
export async function plantsOf(here: AccountsHere, account: string): Promise<readonly PortablePlant[]> {
  return exportedFrom(here.stores.transfers, await idOf(here, account))
}

/** Adds `hardPlants` to an account. */
export async function plantHard(here: AccountsHere, account: string): Promise<void> {
  const id = await idOf(here, account)
  for (const plant of hardPlants) await here.stores.plants.create(id, plant)
}

/** Makes the text of an account's file from plants. */
export function fileOf(plants: readonly PortablePlant[]): string {
  return headerLine('ann', plants.length) + plants.map(plantLine).join('')
}

/** Reads the plants of an account's file, which arrives in chunks. @param pieceLength bytes of each chunk */
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

/** A plant with its id, name and tag alone. */
export function bare({ id, name, tag }: PortablePlant): PortablePlant {
  return tag === undefined ? { id, name } : { id, name, tag }
}

/** The ids, names and tags of all plants of an account, read from an export. */
export async function exportedFrom(transfers: PlantTransfers, account: number): Promise<readonly PortablePlant[]> {
  let text = ''
  const begin = (...counts: [number, number]) => {
    text = headerLine('ann', ...counts)
  }
  const add = (lines: string) => {
    text += lines
  }
  await transfers.exportPlants(account, { begin, add, end() {} })
  return (await plantsIn(text)).map(bare)
}

/** Imports plants into an account, in the same way as the command. */
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
    const account = { id, name: 'ann', created: 0, suspended: null, limits: {}, models: null, timeZone: null }
    return await importFile(transfers, account, file)
  } finally {
    await file.close()
    remove()
  }
}
