import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import postgres from 'postgres'
import { connectPostgres } from '../../src/storage/postgres/connect.ts'
import { type PostgresServer, startPostgres } from './postgres.ts'

/** The database with our tables that others are copied from. */
const migrated = 'migrated'

/**
 * Keeps one PostgreSQL ready for all test files of a run: it starts when the first of them asks, at a port of loopback that
 * gives its URL, and stops at the end of the run.
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
  // With so many databases autovacuum would hardly do anything else.
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
 * Makes an empty database in the PostgreSQL that all test files share, and gives its URL. What stops, kills or configures
 * a server starts one of its own.
 * @param isolation how isolated its transactions are, where they do not say otherwise
 */
export function newPostgresDatabase(isolation = 'read committed'): Promise<string> {
  return copyOf('template0', isolation)
}

/** Makes one with our tables, which is a copy: all migrations anew would take five times the work. */
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
