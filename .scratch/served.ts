import { startPostgres } from '../test/support/postgres.ts'
import { openPostgresStores } from '../src/stores/postgres.ts'
import { importInto } from '../test/support/account-files.ts'
import { cpuSeconds } from '../bench/processes.ts'
import postgres from 'postgres'
const server = await startPostgres({ fsync: 'on' })
try {
  const url = await server.createDatabase()
  const s = await openPostgresStores(url)
  console.log('served at start', await s.transfers.isServed())
  const a = await s.access.createAccount('a')
  console.log('served after a change', await s.transfers.isServed())
  const w = performance.now()
  await importInto(s.transfers, a.id, Array.from({ length: 100_000 }, (_, i) => ({ id: i + 1, name: `Monstera ${i}`, tag: `shelf ${i % 997}` })))
  console.log('wall', performance.now() - w, 'served', await s.transfers.isServed())
  const o = postgres(url, { max: 1 })
  console.log(await o`select pid, application_name, state, query from pg_stat_activity where datname = current_database()`)
  await o.end(); await s.close()
} finally { await server.stop() }
