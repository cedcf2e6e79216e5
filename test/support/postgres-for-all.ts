import { openPostgresStores } from '../../src/stores/postgres.ts'
import { startPostgres } from './postgres.ts'

/** Starts one PostgreSQL for all services of a test run. Each service gets a copy of a template database with the schema. */
export async function setup(): Promise<() => Promise<void>> {
  // The data is removed at the end of the run, so it need not survive a crash.
  const careless = { full_page_writes: 'off', synchronous_commit: 'off', wal_level: 'minimal', max_wal_senders: '0' }
  // There is a database for each service, so autovacuum would be busy all the time.
  const server = await startPostgres({ max_connections: '1000', autovacuum: 'off', ...careless })
  const url = await server.createDatabase()
  await (await openPostgresStores(url)).close()
  process.env['TEST_POSTGRES_URL'] = url
  return () => server.stop()
}
