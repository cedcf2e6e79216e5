import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { lockForServing } from '../../src/storage/file-lock.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { type KilledPlace, killTransfers } from '../support/killed-transfers.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

const places: readonly (readonly [engine: string, open: () => Promise<KilledPlace>])[] = [
  [
    'SQLite',
    async () => {
      const folder = folderForThisTest()
      const stores = openSqliteStores(join(folder, 'conservatory.db'))
      const lock = lockForServing(folder)
      onTestFinished(async () => {
        lock.release()
        await stores.close()
      })
      return { folder, stores, settings: { DATA_DIR: folder } }
    },
  ],
  [
    'PostgreSQL',
    async () => {
      const folder = folderForThisTest()
      const url = await newMigratedDatabase()
      const stores = await openPostgresStores(url)
      onTestFinished(() => stores.close())
      return { folder, stores, settings: { DATA_DIR: folder, DATABASE_URL: url } }
    },
  ],
]

/** How often each command is killed; `npm run trials -- operations` sets this to 20. */
const kills = Number(process.env['TRANSFER_KILLS'] ?? 1)

it.each(places)(
  'kill -9 of import, --undo and delete loses and duplicates no plant: %s',
  async (_, open) => {
    const done = await killTransfers(await open(), 1500 * (kills + 1), kills)
    process.stderr.write(kills > 2 ? `${JSON.stringify(done)}\n` : '')
    expect(Math.min(...Object.values(done))).toBeGreaterThanOrEqual(kills / 2)
  },
  900_000,
)
