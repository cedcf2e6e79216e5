import type { TestSql } from './test-sql.ts'

const day = 86_400
/** The number of days over which the requests are spread. The last day is today. */
const days = 30

/**
 * Fills a ledger with requests of the last 30 days. All requests are of the first account, with 20 keys, 5 models and 10
 * characters. The engine generates the rows itself.
 * @param now Unix seconds
 */
export async function fillLargeLedger(sql: TestSql, engine: string, rows: number, now: number): Promise<void> {
  const isSqlite = engine === 'SQLite'
  const numbers = isSqlite
    ? `WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${rows - 1})`
    : `WITH numbers AS (SELECT n::bigint FROM generate_series(0, ${rows - 1}) AS numbers (n))`
  const first = now - (now % day) - (days - 1) * day
  const id = isSqlite ? "printf('req_%032d', n)" : "'req_' || lpad(n::text, 32, '0')"
  // The time grows with n, so values that depend on the remainder of n are spread over all days.
  const created = `${first} + n * ${now - first} / ${rows}`
  const dayOfRow = isSqlite
    ? "date(created, 'unixepoch')"
    : "to_char(to_timestamp(created) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
  await sql.run(`
    INSERT INTO requests (id, account, key_id, key_prefix, model, model_used, character, created, microsecond, reserved_tokens,
      prompt_tokens, completion_tokens, tokens_exact, first_token_ms, total_ms, retries, state, summed)
    ${numbers} SELECT ${id}, 1, 'key_' || n % 20, 'cv_' || n % 20, 'model ' || n / 20 % 5, 'used', 'character ' || n / 100 % 10,
      ${created}, 0, 500, 11, 7, 1, 41, 380, 0, CASE WHEN n % 50 = 0 THEN 'timeout' ELSE 'stop' END, 1 FROM numbers`)
  await sql.run(`
    INSERT INTO usage_days
    SELECT account, ${dayOfRow}, key_prefix || model || character, key_prefix, model, character, count(*),
      SUM(prompt_tokens), SUM(completion_tokens), SUM(CASE WHEN state = 'stop' THEN 0 ELSE 1 END)
    FROM requests GROUP BY 1, 2, 3, 4, 5, 6`)
  await sql.run(
    `INSERT INTO spend SELECT 'account:1', day, SUM(prompt_tokens + completion_tokens) FROM usage_days GROUP BY day`,
  )
}

/** Adds plants to the first account, with ids from 1 on; every tenth has the tag `fern`. */
export async function fillPlants(sql: TestSql, engine: string, plants: number): Promise<void> {
  const columns = 'INSERT INTO plants (account, id, name, tag)'
  const tag = "CASE WHEN n % 10 = 0 THEN 'fern' ELSE 'tag ' || n % 10 END"
  if (engine === 'SQLite') {
    await sql.run(`
      ${columns} WITH RECURSIVE ids (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ids WHERE n < ${plants})
      SELECT 1, n, 'Plant ' || n, ${tag} FROM ids`)
    return
  }
  // With this role PostgreSQL checks no foreign keys. Ten million checks of the same account would take longer than the inserts.
  await sql.run("SET session_replication_role = 'replica'")
  await sql.run(`${columns} SELECT 1, n, 'Plant ' || n, ${tag} FROM generate_series(1, ${plants}::bigint) AS ids (n)`)
  await sql.run("SET session_replication_role = 'origin'")
}

/** Makes statistics and a checkpoint, as a database that has grown over years has them. */
export async function settle(sql: TestSql, engine: string): Promise<void> {
  if (engine === 'SQLite') {
    await sql.run('ANALYZE')
    await sql.run('PRAGMA wal_checkpoint(TRUNCATE)')
    return
  }
  await sql.run('VACUUM (ANALYZE)')
  await sql.run('CHECKPOINT')
}

/** Adds idempotency keys of the first account, with `perSecond` keys for each second after `from`. */
export async function fillKeys(
  sql: TestSql,
  engine: string,
  keys: { readonly count: number; readonly from: number; readonly perSecond: number },
): Promise<void> {
  const numbers =
    engine === 'SQLite'
      ? `WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${keys.count - 1})`
      : `WITH numbers AS (SELECT n::bigint FROM generate_series(0, ${keys.count - 1}) AS numbers (n))`
  await sql.run(`
    INSERT INTO idempotency_keys (account, key, request, plant, name, created)
    ${numbers} SELECT 1, 'old-${keys.from}-' || n, 'x', n, 'Moss', ${keys.from} + n / ${keys.perSecond} FROM numbers`)
}
