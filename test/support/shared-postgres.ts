import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import postgres from 'postgres'
import { type PostgresServer, startPostgres } from './postgres.ts'

/**
 * Keeps one PostgreSQL ready for all test files of a run: it starts when the first of them asks, at a port of loopback that
 * gives its URL, and stops at the end of the run.
 */
export async function setup(): Promise<() => Promise<void>> {
  let server: Promise<PostgresServer> | undefined
  const door = createServer(async (socket) => {
    socket.on('error', () => {})
    // With so many databases autovacuum would hardly do anything else.
    server ??= startPostgres({ max_connections: '400', autovacuum: 'off' })
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

let serverUrl: Promise<string> | undefined

/**
 * Makes an empty database in the PostgreSQL that all test files share, and gives its URL. What stops, kills or configures
 * a server starts one of its own.
 * @param isolation how isolated its transactions are, where they do not say otherwise
 */
export async function newPostgresDatabase(isolation = 'read committed'): Promise<string> {
  serverUrl ??= text(connect(Number(process.env['TEST_POSTGRES_DOOR']), '127.0.0.1'))
  const url = new URL(await serverUrl)
  const name = `test_${randomUUID().replaceAll('-', '')}`
  const sql = postgres(url.href, { max: 1, onnotice: () => {} })
  await sql.unsafe(`CREATE DATABASE ${name}`)
  await sql.unsafe(`ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`)
  await sql.end()
  url.pathname = name
  return url.href
}
