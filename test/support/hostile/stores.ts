import type { TestSql } from '../test-sql.ts'
import type { Attacker } from './attacker.ts'
import { type Engine, json, type Row } from './row.ts'

/* Requests to a database with a million rows, on both engines. */

/** Fills a table from the numbers `n` from 1 to `rows`, with SQL for both engines. */
async function fillTable(sql: TestSql, table: string, columns: string, values: string, rows = 1e6): Promise<void> {
  const digits =
    '(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)'
  const places = ['a', 'b', 'c', 'e', 'f', 'g']
  const from = places.map((place) => `${digits} ${place}`).join(', ')
  const number = places.map((place, index) => `${place}.d * ${10 ** index}`).join(' + ')
  await sql.run(
    `INSERT INTO ${table} (${columns}) SELECT ${values} FROM (SELECT 1 + ${number} AS n FROM ${from}) AS numbers WHERE n <= ${rows}`,
  )
}

/** The first attacker's account, which has the million rows; other attackers share its key. */
const firstAccount = "(SELECT min(id) FROM accounts WHERE name = 'account-2')"

const fillPlants = (sql: TestSql) =>
  fillTable(
    sql,
    'plants',
    'account, id, name, tag',
    `${firstAccount}, n, 'Plant ' || n, CASE WHEN n % 2 = 0 THEN 'even' END`,
  )
const fillCharacters = (sql: TestSql) =>
  fillTable(
    sql,
    'characters',
    'account, name, folded, digest, about, created, updated',
    `${firstAccount}, 'Moss ' || n, 'moss ' || n, 'x', '{"creator":"","tags":["fern","ivy"],"avatar":false}', 1, 1`,
    10_000,
  )
const fillKeys = (sql: TestSql) =>
  fillTable(
    sql,
    'idempotency_keys',
    'account, key, request, plant, name, created',
    `${firstAccount}, 'key-' || n, 'x', n, 'Moss', 1000000`,
  )
/** Adds a million requests, each with a different model, to the ledger and to the sums of days, as a service does. */
async function fillLedger(sql: TestSql): Promise<void> {
  await fillTable(
    sql,
    'requests',
    'id, account, key_id, key_prefix, model, created, reserved_tokens, prompt_tokens, completion_tokens, tokens_exact, total_ms, retries, state, summed',
    `'req_' || n, ${firstAccount}, 'key_' || (n % 1000), 'cv_' || (n % 1000), 'model ' || n, 1763000000 + n, 0, 1, 1, 1, 1, 0, 'stop', 1`,
  )
  // The first day of the sums has the number 20405, which is 13 November 2025.
  await fillTable(
    sql,
    'usage_days',
    'account, day, digest, key_prefix, model, requests, prompt_tokens, completion_tokens, failed',
    `${firstAccount}, '2025-11-' || (13 + (1763000000 + n) / 86400 - 20405), 'digest ' || n, 'cv_' || (n % 1000), 'model ' || n, 1, 1, 1, 0`,
  )
}

/** A text of 51,000 characters of two bytes, as long as the longest list of models: it makes rows of keys and records large. */
const longModels = `["${Array.from({ length: 100 }, (_none, index) => `model-${index}`.padEnd(255, 'é')).join('","')}"]`
const fillEndedKeys = (sql: TestSql) =>
  fillTable(
    sql,
    'keys',
    'id, account, prefix, digest, scopes, created, revoked, limits, models',
    `'key_' || n, ${firstAccount}, 'cv_ended-' || n, 'digest ' || n, 'chat', 1, 5, '{}', '${longModels}'`,
    2000,
  )
async function fillAudit(sql: TestSql): Promise<void> {
  const columns = 'seq, id, at, actor, action, account, account_name, after'
  const values = (facts: string) => `'key.limited', ${firstAccount}, 'account-2', '{"models":${facts}}'`
  await fillTable(sql, 'audit_records', columns, `1000000 + n, 'long ' || n, 5, 'key', ${values(longModels)}`, 2000)
  await fillTable(sql, 'audit_records', columns, `2000000 + n, 'short ' || n, 5, 'key', ${values('null')}`, 300_000)
}

interface StoreRow extends Partial<Row> {
  readonly name: string
  readonly fill: (sql: TestSql) => Promise<void>
  readonly attack: (attacker: Attacker) => Promise<unknown>
}

/** A row for each engine. All attackers use the key of the account with the million rows. */
function onBoth({ name, attack, ...more }: StoreRow): readonly Row[] {
  const engines: readonly Engine[] = ['SQLite', 'PostgreSQL']
  return engines.map((engine) => ({
    ...more,
    name: `${name}, ${engine}`,
    engine,
    isOneAccount: true,
    prepare: () => attack,
  }))
}

const get = (path: string) => (attacker: Attacker) => attacker.send(path)

export const stores: readonly Row[] = [
  ...onBoth({
    name: 'slow readers of GET /plants?limit=3000001 over a million plants',
    isLargest: true,
    fill: fillPlants,
    attack: (attacker) => attacker.send('/plants?limit=3000001', { unreadFor: 5 }),
  }),
  ...onBoth({
    name: 'slow readers of GET /plants over a million plants',
    isLargest: true,
    fill: fillPlants,
    attack: (attacker) => attacker.send('/plants', { unreadFor: 5 }),
  }),
  ...onBoth({
    name: 'a keyed POST /plants when a million idempotency keys have expired',
    fill: fillKeys,
    attack: (attacker) =>
      attacker.send('/plants', {
        method: 'POST',
        body: json({ name: 'Moss' }),
        headers: { 'content-type': 'application/json', 'idempotency-key': `new-${attacker.index}` },
      }),
  }),
  ...onBoth({
    name: 'half a million plants with a tag',
    isLargest: true,
    fill: fillPlants,
    attack: get('/plants?tag=even&limit=1000000'),
  }),
  ...onBoth({
    name: 'a tag that no plant has, and pages of 100,000',
    isLargest: true,
    fill: fillPlants,
    attack: async (attacker) => {
      await attacker.send('/plants?tag=none')
      await attacker.send('/plants?limit=100000')
    },
  }),
  ...onBoth({
    name: 'a tag that none of 10,000 characters has, and pages of 1,000',
    fill: fillCharacters,
    attack: async (attacker) => {
      await attacker.send('/characters?tag=none')
      await attacker.send('/characters?limit=1000')
    },
  }),
  ...onBoth({
    name: 'keys of an account with 2,000 ended keys that have long lists of models',
    fill: fillEndedKeys,
    attack: get('/keys'),
  }),
  ...onBoth({
    name: 'a page of long audit records, and an action that none of 300,000 records has',
    isLargest: true,
    fill: fillAudit,
    attack: async (attacker) => {
      await attacker.send('/audit?limit=1000')
      await attacker.send('/audit?action=models.reloaded')
    },
  }),
  ...onBoth({
    name: 'usage of a million requests, by model and by key',
    fill: fillLedger,
    attack: async (attacker) => {
      await attacker.send('/usage?from=2020-01-01&by=model')
      await attacker.send('/usage?from=2020-01-01&by=key')
      await attacker.send('/usage?from=2020-01-01&by=day')
      // A report reads a part of a day from the requests, and not from the sums.
      await attacker.send('/usage?from=2025-11-14T08:00:00Z&to=2025-11-15T16:00:00Z&by=model')
    },
  }),
  ...onBoth({
    name: 'the requests of a model that none of a million requests had',
    fill: fillLedger,
    attack: get('/requests?model=none&from=2020-01-01'),
  }),
]
