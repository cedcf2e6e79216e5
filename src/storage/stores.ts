import type { AccessStore } from '../access/access.ts'
import { SqliteAccessStore } from '../access/sqlite.ts'
import type { CharacterStore } from '../characters/character.ts'
import { SqliteCharacterStore } from '../characters/sqlite.ts'
import type { PlantStore } from '../plants/plant.ts'
import { SqlitePlantStore } from '../plants/sqlite.ts'
import { openDatabase } from './database.ts'
import { GroupCommit } from './group-commit.ts'
import { OutsideChanges } from './outside-changes.ts'

/** Every store of the service, over one database. */
export interface Stores {
  readonly access: AccessStore
  readonly plants: PlantStore
  readonly characters: CharacterStore
  /** Resolves when the database answers; rejects with the reason when it does not. */
  check(): Promise<void>
  close(): Promise<void>
}

/**
 * Opens the stores over the SQLite file at this path. Another database engine is another function like this one.
 * @throws StorageError when the file or its folder cannot be used
 */
export function openSqliteStores(path: string): Stores {
  const database = openDatabase(path)
  const commit = new GroupCommit(database)
  const changes = new OutsideChanges(database)
  const ping = database.prepare('SELECT 1')
  return {
    access: new SqliteAccessStore(database, changes),
    plants: new SqlitePlantStore(database, commit, changes),
    characters: new SqliteCharacterStore(database, changes),
    async check() {
      ping.get()
    },
    async close() {
      commit.flush()
      database.close()
    },
  }
}
