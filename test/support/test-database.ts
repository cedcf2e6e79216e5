import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import { onTestFinished } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { openStores } from '../../src/stores/open.ts'
import type { Stores } from '../../src/stores/stores.ts'
import { eventually } from './eventually.ts'

/**
 * The URL of a template database with the empty schema, on the server that `vitest.postgres.config.ts` starts for all tests. Each
 * data folder gets a copy of the template. Undefined over SQLite.
 */
const templateUrl = process.env['TEST_POSTGRES_URL']
const databases = new Map<string, Promise<string>>()

/** Whether the services of this run keep their data in PostgreSQL. */
export const isOverPostgres = templateUrl !== undefined

/** The URL of the database of a data folder, which is made at the first call; undefined over SQLite. */
export async function databaseOf(dataDirectory: string): Promise<string | undefined> {
  if (templateUrl === undefined) return undefined
  const made = databases.get(dataDirectory) ?? copyOf(templateUrl)
  databases.set(dataDirectory, made)
  return made
}

/** The settings of a service or a command for a data folder and its database. */
export async function settingsOf(dataDirectory: string): Promise<Readonly<Record<string, string>>> {
  const databaseUrl = await databaseOf(dataDirectory)
  return { DATA_DIR: dataDirectory, ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }) }
}

/** Opens the stores of a data folder beside the service, or without a service. The caller closes them. */
export async function openStoresOf(dataDirectory: string): Promise<Stores> {
  return openStores(readConfig(await settingsOf(dataDirectory)))
}

/** Makes the database of a data folder, as the first start of the service does, but without accounts. */
export async function makeDatabase(dataDirectory: string): Promise<void> {
  await (await openStoresOf(dataDirectory)).close()
}

/** Opens the stores of a data folder, and closes them at the end of the running test. */
export async function storesForThisTest(dataDirectory: string): Promise<Stores> {
  const stores = await openStoresOf(dataDirectory)
  onTestFinished(() => stores.close())
  return stores
}

/**
 * Checks the rights of a key after a command has changed them. Over SQLite the service must know the change immediately. Over
 * PostgreSQL the check is repeated until it passes, because each replica caches keys for half a second.
 */
export function onceKnown<T>(check: () => Promise<T>): Promise<T> {
  return isOverPostgres ? eventually(check) : check()
}

async function copyOf(template: string): Promise<string> {
  const url = new URL(template)
  const templateName = url.pathname.slice(1)
  const name = `test_${randomUUID().replaceAll('-', '')}`
  url.pathname = 'postgres'
  const sql = postgres(url.href, { max: 1, onnotice: () => {} })
  await sql.unsafe(`CREATE DATABASE ${name} TEMPLATE ${templateName}`)
  await sql.end()
  url.pathname = name
  return url.href
}
