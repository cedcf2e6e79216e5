import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import postgres from 'postgres'
import { connectPostgres } from '../../src/storage/postgres/connect.ts'
import { type PostgresServer, startPostgres } from './postgres.ts'

/** The template database with the schema. */
const migrated = 'migrated'

/**
 * Provides one PostgreSQL for all test files of a run. Test files ask a port of loopback for its URL. The server starts at the
 * first such request, and stops at the end of the run.
 */
export async function setup(): Promise<() => Promise<void>> {
  let server: Promise<PostgresServer> | undefined
  const door = createServer(async (socket) => {
    socket.on('error', () => {})
    server ??= startMigrated()
    try {
      socket.end((await server).url('postgres'))
    } catch (error) {
      console.error(error)
      socket.destroy()
    }
  })
  door.listen(0, '127.0.0.1')
  await once(door, 'listening')
  const address = door.address()
  process.env['TEST_POSTGRES_DOOR'] = String(typeof address === 'object' ? address?.port : address)
  return async () => {
    door.close()
    await (await server)?.stop()
  }
}

async function startMigrated(): Promise<PostgresServer> {
  // There are so many databases that autovacuum would be busy all the time.
  const server = await startPostgres({ max_connections: '400', autovacuum: 'off' })
  await execute(server.url('postgres'), `CREATE DATABASE ${migrated}`)
  await (await connectPostgres(server.url(migrated))).close()
  return server
}

async function execute(url: string, ...statements: readonly string[]): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  for (const statement of statements) await sql.unsafe(statement)
  await sql.end()
}

let serverUrl: Promise<string> | undefined

/**
 * Makes an empty database in the shared PostgreSQL, and returns its URL. A test that stops, kills or configures a server starts
 * its own server.
 * @param isolation the default isolation level of transactions
 */
export function newPostgresDatabase(isolation = 'read committed'): Promise<string> {
  return copyOf('template0', isolation)
}

/** Makes a database with the schema by copying a template, because running all migrations takes five times as long. */
export function newMigratedDatabase(isolation = 'read committed'): Promise<string> {
  return copyOf(migrated, isolation)
}

async function copyOf(template: string, isolation: string): Promise<string> {
  serverUrl ??= text(connect(Number(process.env['TEST_POSTGRES_DOOR']), '127.0.0.1'))
  const url = new URL(await serverUrl)
  const name = `test_${randomUUID().replaceAll('-', '')}`
  await execute(
    url.href,
    `CREATE DATABASE ${name} TEMPLATE ${template}`,
    `ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`,
  )
  url.pathname = name
  return url.href
}
