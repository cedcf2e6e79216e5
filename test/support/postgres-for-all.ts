import { startPostgres } from './postgres.ts'

/** Starts the PostgreSQL that every service of a test run has its database in. */
export async function setup(): Promise<() => Promise<void>> {
  const server = await startPostgres({ max_connections: '1000' })
  process.env['TEST_POSTGRES_URL'] = `postgres://postgres@127.0.0.1:${server.port}`
  return () => server.stop()
}
