import postgres from 'postgres'
import { startPostgres } from '../test/support/postgres.ts'
import { cpuSeconds } from '../bench/processes.ts'
import { PostgresDatabase } from '../src/storage/postgres/database.ts'
import { migratePostgres } from '../src/storage/postgres/migrate.ts'
const n = 200_000
const server = await startPostgres({ fsync: 'off' })
try {
  for (const way of ['copy', 'json', 'unnest', 'copybatch', 'json']) {
    const url = await server.createDatabase()
    const d = new PostgresDatabase(url); await migratePostgres(d); await d.close()
    const sql = postgres(url, { max: 1, fetch_types: false, types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } } })
    await sql`INSERT INTO accounts (id, name, created) VALUES (1, 'a', 0)`
    const [{ pid }] = await sql`select pg_backend_pid() as pid` as any
    const s0 = cpuSeconds(pid), c0 = process.cpuUsage(), w0 = performance.now()
    const row = (id: number) => ({ id, name: `Monstera ${id}`, tag: `shelf ${id % 997}` })
    const text = (from: number, count: number) => { let t = ''; for (let i = from; i < from + count; i++) { const r = row(i); t += `1\t${i}\t${r.name}\t${r.tag}\n` } return t }
    if (way === 'copy') {
      const w = await sql`COPY plants (account,id,name,tag) FROM STDIN`.writable()
      for (let i = 1; i <= n; i += 5000) if (!w.write(text(i, 5000))) await new Promise(r => w.once('drain', r))
      await new Promise<void>((res) => { w.once('finish', () => res()); w.end() })
    } else for (let i = 1; i <= n; i += 5000) {
      const rows = Array.from({ length: 5000 }, (_, k) => row(i + k))
      await sql.begin(async sql => {
        if (way === 'json') await sql`INSERT INTO plants (account,id,name,tag) SELECT 1::bigint, id, name, tag FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS new (id BIGINT, name TEXT, tag TEXT) ON CONFLICT DO NOTHING`
        if (way === 'unnest') { const q=(s:string)=>'"'+s.replace(/["\\]/g,'\\$&')+'"'; await sql`INSERT INTO plants (account,id,name,tag) SELECT 1::bigint, id, name, tag FROM unnest(${'{'+rows.map(r=>r.id).join(',')+'}'}::text::bigint[], ${'{'+rows.map(r=>q(r.name)).join(',')+'}'}::text::text[], ${'{'+rows.map(r=>q(r.tag)).join(',')+'}'}::text::text[]) AS new (id, name, tag) ON CONFLICT DO NOTHING` }
        if (way === 'copybatch') { const w = await sql`COPY plants (account,id,name,tag) FROM STDIN`.writable(); await new Promise<void>((res, rej) => { w.once('finish', () => res()); w.once('error', rej); w.end(text(i, 5000)) }) }
      })
    }
    const c = process.cpuUsage(c0)
    console.log(way, 'server', (cpuSeconds(pid) - s0).toFixed(2), 'client', ((c.user + c.system) / 1e6).toFixed(2), 'wall', ((performance.now() - w0) / 1000).toFixed(1))
    let e0 = cpuSeconds(pid), x0 = performance.now()
    for (let after = -1, k = 0; ;) { const [r] = await sql`SELECT max(id) AS last, string_agg('{"id":' || id || ',"name":' || to_json(name)::text || coalesce(',"tag":' || to_json(tag)::text, '') || '}' || chr(10), '' ORDER BY id) AS lines FROM (SELECT id, name, tag FROM plants WHERE account = 1 AND id > ${after} ORDER BY id LIMIT 2000) AS page` as any; if (r.last === null) break; after = r.last }
    console.log('  export server', (cpuSeconds(pid) - e0).toFixed(2), 'wall', ((performance.now() - x0) / 1000).toFixed(1))
    e0 = cpuSeconds(pid); x0 = performance.now()
    for (let after = -1, k = 0; ;) { const r = await sql`SELECT id, name, tag FROM plants WHERE account = 1 AND id > ${after} ORDER BY id LIMIT 2000` as any; if (!r.length) break; after = r.at(-1).id }
    console.log('  export rows server', (cpuSeconds(pid) - e0).toFixed(2), 'wall', ((performance.now() - x0) / 1000).toFixed(1))
    e0 = cpuSeconds(pid); x0 = performance.now(); const rd = await sql`COPY (SELECT id, name, tag FROM plants WHERE account = 1 ORDER BY id) TO STDOUT`.readable(); for await (const _ of rd); console.log('  copy to', (cpuSeconds(pid) - e0).toFixed(2), 'wall', ((performance.now() - x0) / 1000).toFixed(1))
    await sql.end()
  }
} finally { await server.stop() }
