import { join } from 'node:path'
import type Database from 'better-sqlite3'
import postgres from 'postgres'
import type { PlantStore } from '../../src/plants/plant.ts'
import { PostgresPlantStore } from '../../src/plants/postgres.ts'
import { PostgresTransfers } from '../../src/plants/postgres-transfer.ts'
import { SqlitePlantStore } from '../../src/plants/sqlite.ts'
import { SqliteTransfers } from '../../src/plants/sqlite-transfer.ts'
import type { PlantTransfers } from '../../src/plants/transfers.ts'
import { OutsideChanges } from '../../src/storage/caches.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { GroupCommit } from '../../src/storage/group-commit.ts'
import { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { PostgresScripts } from '../../src/storage/postgres/scripts.ts'
import type { Scripts } from '../../src/storage/scripts.ts'
import { SqliteScripts } from '../../src/storage/sqlite-scripts.ts'
import { temporaryFolder } from './service.ts'
import { newMigratedDatabase } from './shared-postgres.ts'

/** An empty database with our schema. */
export interface TestDatabase {
  /** Opens another store of plants over the database. Each replica has its own store. */
  openPlants(): PlantStore
  /** Opens the store for imports and exports, on its own connection. */
  openTransfers(): PlantTransfers
  /** Opens the database for scripts, on its own connection. */
  openScripts(): Scripts
  /** Makes an account, and returns its id. */
  newAccount(): Promise<number>
  /** Runs plain SQL on its own connection. Both engines must understand the SQL. */
  run(sql: string): Promise<void>
  close(): Promise<void>
}

/** A database engine of the stores. */
export interface Engine {
  readonly name: string
  /** Whether the engine supports several replicas. */
  readonly hasReplicas: boolean
  openDatabase(): Promise<TestDatabase>
}

/** PostgreSQL with only serializable transactions: the default of CockroachDB, and an option of YugabyteDB. */
export const serializable: Engine = {
  name: 'PostgreSQL, serializable',
  hasReplicas: true,
  openDatabase: () => openPostgres('serializable'),
}

export const sqlite: Engine = { name: 'SQLite', hasReplicas: false, openDatabase: async () => openSqlite() }

/** All engines of the contract tests. */
export const engines: readonly Engine[] = [
  sqlite,
  { name: 'PostgreSQL', hasReplicas: true, openDatabase: () => openPostgres('read committed') },
  serializable,
]

async function openPostgres(isolation: string): Promise<TestDatabase> {
  const url = await newMigratedDatabase(isolation)
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  const databases: PostgresDatabase[] = []
  let accounts = 0
  return {
    openPlants() {
      const database = new PostgresDatabase(url)
      databases.push(database)
      return new PostgresPlantStore(database)
    },
    openTransfers() {
      const database = new PostgresDatabase(url)
      databases.push(database)
      return new PostgresTransfers(database)
    },
    openScripts() {
      const database = new PostgresDatabase(url)
      databases.push(database)
      return new PostgresScripts(database)
    },
    async newAccount() {
      const id = ++accounts
      await sql`INSERT INTO accounts (id, name, created) VALUES (${id}, ${`account ${id}`}, 0)`
      return id
    },
    async run(text) {
      await sql.unsafe(text)
    },
    async close() {
      await Promise.all([sql.end(), ...databases.map((database) => database.close())])
    },
  }
}

function openSqlite(): TestDatabase {
  const folder = temporaryFolder()
  const path = join(folder.path, 'conservatory.db')
  const outside = openDatabase(path)
  const databases: Database.Database[] = [outside]
  let accounts = 0
  const connect = () => {
    const database = openDatabase(path)
    // Faster: with waits for the disk, these tests would take minutes. Other tests check that writes are on disk.
    database.pragma('synchronous = OFF')
    databases.push(database)
    return database
  }
  return {
    openPlants() {
      const database = connect()
      return new SqlitePlantStore(database, new GroupCommit(database), new OutsideChanges(database))
    },
    openTransfers() {
      const database = connect()
      return new SqliteTransfers(database)
    },
    openScripts() {
      const database = connect()
      return new SqliteScripts(database, new GroupCommit(database))
    },
    async newAccount() {
      const id = ++accounts
      outside.prepare('INSERT INTO accounts (id, name, created) VALUES (?, ?, 0)').run(id, `account ${id}`)
      return id
    },
    async run(text) {
      outside.exec(text)
    },
    async close() {
      for (const database of databases) database.close()
      folder.remove()
    },
  }
}
