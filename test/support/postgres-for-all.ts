import { openPostgresStores } from '../../src/stores/postgres.ts'
import { startPostgres } from './postgres.ts'

/** Starts the PostgreSQL that every service of a test run has its database in: a copy of the one that is named, with our tables. */
export async function setup(): Promise<() => Promise<void>> {
  // Nothing of it outlives the run.
  const careless = { full_page_writes: 'off', synchronous_commit: 'off', wal_level: 'minimal', max_wal_senders: '0' }
  // With a database to each service it would hardly do anything else.
  const server = await startPostgres({ max_connections: '1000', autovacuum: 'off', ...careless })
  const url = await server.createDatabase()
  await (await openPostgresStores(url)).close()
  process.env['TEST_POSTGRES_URL'] = url
  return () => server.stop()
}
