import { hash, randomUUID } from 'node:crypto'
import { ApiError } from '../errors.ts'
import type { Queries, Transaction } from '../storage/postgres/database.ts'
import { Conflict } from '../storage/postgres/failures.ts'
import { awaitingLock } from '../storage/postgres/group-commit.ts'
import { versionsEpoch } from '../storage/postgres/replicas.ts'
import { lockAccounts } from '../storage/postgres/scripts.ts'
import { query, type Script } from '../storage/scripts.ts'
import { accountGone } from '../storage/write-error.ts'
import { unixSeconds } from '../time.ts'
import { columnsOf, type DetailsRow, detailsRowOf, nextVersion } from './details.ts'
import type { AddedPlant, Idempotency, PlantsVersion } from './plant.ts'
import { checkPlantsLimit, idTaken, maxKeysOfRemoved, nextId, oldestValidKeySeconds, replayOf } from './policy.ts'
import { isByTag, type KeyedRow, sharersOf } from './rows.ts'
import type { NewPlant } from './schemas.ts'

/** A plant to add. */
export interface Addition {
  readonly account: number
  readonly plant: NewPlant
  readonly idempotency?: Idempotency | undefined
  readonly limit?: number | undefined
}

/** A plant to remove. */
export interface Removal {
  readonly account: number
  readonly id: number
  /** Throws an ApiError if the plant must not be removed in this version. */
  readonly check?: ((version: number) => void) | undefined
}

export type PlantWrite = Addition | Removal

/** The result of a write. */
export interface WriteResult {
  readonly added?: AddedPlant
  readonly isRemoved?: boolean
}

/**
 * Applies writes in their order in as few statements as possible: reads the rows that the writes touch, decides in memory, and
 * writes all changes in one step. The rows of the accounts stay locked until the transaction ends, so that replicas do not take
 * the same ids.
 * @param mayWait whether to wait for accounts that other transactions have locked; otherwise the writes of these accounts are
 *   left out, with the result `awaitingLock`
 * @returns a result, a refusal or `awaitingLock` for each write
 */
export async function writePlants(
  sql: Transaction,
  writes: readonly PlantWrite[],
  mayWait: boolean,
): Promise<readonly (WriteResult | ApiError | typeof awaitingLock)[]> {
  const answers: (WriteResult | ApiError | typeof awaitingLock)[] = []
  // Accounts that exist, but that another transaction has locked.
  const awaited = new Set<number>()
  if (!mayWait) {
    const { existing, locked } = await lockAccounts(sql, writes, false)
    for (const account of existing) if (!locked.has(account)) awaited.add(account)
  }
  while (answers.length < writes.length) {
    const rest = writes.slice(answers.length)
    const plan = await readState(
      sql,
      rest.filter(({ account }) => !awaited.has(account)),
    )
    for (const write of rest) {
      if (plan.needsReload(write)) break
      answers.push(awaited.has(write.account) ? awaitingLock : plan.apply(write))
    }
    await writeChanges(sql, plan)
  }
  return answers
}

interface AccountState {
  /** The highest id, at least 0; undefined when the plant with the highest id was removed. */
  highest: number | undefined
  /** The number of plants; counted only if there is a limit, and only as far as the limit needs. */
  count: number
}

interface KeyRow extends KeyedRow {
  readonly account: number
  readonly key: string
}

/** A plant to insert. */
interface NewRow extends ReturnType<typeof columnsOf> {
  readonly account: number
  readonly id: number
}

/** A row of details to insert. */
interface NewDetailsRow extends DetailsRow {
  readonly account: number
  readonly plant: number
}

/** An idempotency key to insert. */
interface NewKeyRow extends KeyRow {
  readonly name: string
  readonly tag: string | null
  /** 1 if the same transaction removes the plant again. */
  removed: number
}

/** Applies writes to the state in memory, and collects the changes of rows. */
class WritePlan {
  readonly #accounts: ReadonlyMap<number, AccountState>
  /** The version of each plant. */
  readonly #existing: Map<string, number>
  readonly #keyed: ReadonlyMap<string, KeyedRow>
  /** Plants to insert, after the removals. */
  readonly added = new Map<string, NewRow>()
  readonly details = new Map<string, NewDetailsRow>()
  readonly removed = new Map<string, Removal>()
  readonly keys: NewKeyRow[] = []
  /** Unix seconds. */
  readonly now = unixSeconds()

  constructor(
    accounts: ReadonlyMap<number, AccountState>,
    existing: Map<string, number>,
    keyed: ReadonlyMap<string, KeyedRow>,
  ) {
    this.#accounts = accounts
    this.#existing = existing
    this.#keyed = keyed
  }

  /** Whether the write needs the highest id, and this id is unknown until the changes so far are written. */
  needsReload(write: PlantWrite): boolean {
    const account = this.#accounts.get(write.account)
    return 'plant' in write && write.plant.id === undefined && account !== undefined && account.highest === undefined
  }

  /** Applies the next write. */
  apply(write: PlantWrite): WriteResult | ApiError {
    const account = this.#accounts.get(write.account)
    if (!account) return accountGone(undefined)
    try {
      if (!('plant' in write)) return { isRemoved: this.#remove(account, write) }
      return { added: this.#addOnce(account, write) }
    } catch (error) {
      if (error instanceof ApiError) return error
      throw error
    }
  }

  #addOnce(state: AccountState, write: Addition): AddedPlant {
    const { account, idempotency } = write
    if (!idempotency) return this.#add(state, write)
    const first = this.#keyed.get(`${account} ${idempotency.key}`)
    if (first) return replayOf(account, first, idempotency, write.plant)
    const added = this.#add(state, write)
    const { id, name, tag = null } = added.plant
    this.keys.push({ account, ...idempotency, plant: id, name, tag, created: this.now, removed: 0 })
    return added
  }

  #add(state: AccountState, { account, plant, limit }: Addition): AddedPlant {
    if (limit !== undefined) checkPlantsLimit(limit, state.count)
    const id = plant.id ?? nextId(state.highest ?? 0)
    const rowKey = `${account} ${id}`
    if (this.#existing.has(rowKey)) throw idTaken(id)
    this.#existing.set(rowKey, 1)
    this.added.set(rowKey, { account, id, ...columnsOf(plant) })
    const details = detailsRowOf(plant)
    if (details) this.details.set(rowKey, { account, plant: id, ...details })
    state.count++
    if (state.highest !== undefined && id > state.highest) state.highest = id
    return { plant: { ...plant, account, id }, created: this.now, isReplay: false }
  }

  #remove(state: AccountState, { account, id, check }: Removal): boolean {
    const rowKey = `${account} ${id}`
    const version = this.#existing.get(rowKey)
    if (version === undefined) return false
    check?.(version)
    this.#existing.delete(rowKey)
    if (!this.added.delete(rowKey)) this.removed.set(rowKey, { account, id })
    this.details.delete(rowKey)
    for (const key of this.keys) if (key.account === account && key.plant === id) key.removed = 1
    state.count--
    if (id === state.highest) state.highest = undefined
    return true
  }
}

/** Locks the accounts of the writes, and reads the rows that the writes touch. The queries are pipelined. */
async function readState(sql: Transaction, writes: readonly PlantWrite[]): Promise<WritePlan> {
  const additions = writes.filter((write) => 'plant' in write)
  const accounts = accountsOf(writes)
  const limited = additions.filter(({ limit }) => limit !== undefined)
  // An account with `maxCount` plants reaches every limit of this batch, even if all other writes of the batch remove plants.
  const maxCount = Math.max(0, ...limited.map(({ limit = 0 }) => limit)) + writes.length
  const requestedIds = writes.flatMap((write) => {
    const id = 'plant' in write ? write.plant.id : write.id
    return id === undefined ? [] : [{ account: write.account, id }]
  })
  const keys = additions.flatMap(({ account, idempotency }) => (idempotency ? [{ account, key: idempotency.key }] : []))
  const [locked, highest, counts, existing, keyed] = await Promise.all([
    sql<{ id: number }[]>`
      SELECT id FROM accounts
      WHERE id IN (SELECT account FROM json_to_recordset(${accounts}::text::json) AS asked (account BIGINT))
      ORDER BY id FOR NO KEY UPDATE`,
    sql<{ account: number; highest: number | null }[]>`
      SELECT account, (SELECT max(id) FROM plants WHERE plants.account = asked.account) AS highest
      FROM json_to_recordset(${accounts}::text::json) AS asked (account BIGINT)`,
    limited.length === 0
      ? []
      : sql<{ account: number; count: number }[]>`
          SELECT account, (
            SELECT count(*) FROM (SELECT 1 FROM plants WHERE plants.account = asked.account LIMIT ${maxCount}) AS counted
          ) AS count
          FROM json_to_recordset(${list(limited.map(({ account }) => ({ account })))}::text::json) AS asked (account BIGINT)`,
    requestedIds.length === 0
      ? []
      : sql<{ account: number; id: number; version: number }[]>`
          SELECT plants.account, plants.id, version FROM plants
          JOIN json_to_recordset(${list(requestedIds)}::text::json) AS asked (account BIGINT, id BIGINT)
          ON plants.account = asked.account AND plants.id = asked.id`,
    keys.length === 0
      ? []
      : sql<KeyRow[]>`
          SELECT kept.account, kept.key, request, plant, created FROM idempotency_keys AS kept
          JOIN json_to_recordset(${list(keys)}::text::json) AS asked (account BIGINT, key TEXT)
          ON kept.account = asked.account AND kept.key = asked.key WHERE created >= ${oldestValidKeySeconds(unixSeconds())}`,
  ])
  const highestOf = new Map(highest.map((row) => [row.account, row.highest]))
  const countOf = new Map(counts.map((row) => [row.account, row.count]))
  return new WritePlan(
    new Map(
      locked.map(({ id }) => [id, { highest: Math.max(0, highestOf.get(id) ?? 0), count: countOf.get(id) ?? 0 }]),
    ),
    new Map(existing.map(({ account, id, version }) => [`${account} ${id}`, version])),
    new Map(keyed.map((row) => [`${row.account} ${row.key}`, row])),
  )
}

/** @throws Conflict when a row has changed since it was read */
async function writeChanges(sql: Transaction, { added, details, removed, keys, now }: WritePlan): Promise<void> {
  const [deleted, inserted] = await Promise.all([
    removed.size === 0
      ? undefined
      : sql`
          DELETE FROM plants WHERE (account, id) IN (
            SELECT account, id FROM json_to_recordset(${list([...removed.values()])}::text::json)
            AS asked (account BIGINT, id BIGINT)
          )`,
    added.size === 0
      ? undefined
      : sql`
          INSERT INTO plants (account, id, name, tag, place, archived, folded, found, created, updated, version)
          SELECT asked.*, ${now}::bigint, ${now}::bigint, ${nextVersion()}::bigint FROM json_to_recordset(${list([...added.values()])}::text::json)
          AS asked (account BIGINT, id BIGINT, name TEXT, tag TEXT, place TEXT, archived BIGINT, folded TEXT, found TEXT)
          ON CONFLICT DO NOTHING`,
    details.size === 0
      ? undefined
      : sql`
          INSERT INTO plant_details (account, plant, species, light, acquired, notes)
          SELECT * FROM json_to_recordset(${list([...details.values()])}::text::json)
          AS asked (account BIGINT, plant BIGINT, species TEXT, light TEXT, acquired TEXT, notes TEXT)`,
    removed.size === 0
      ? undefined
      : sql`
          UPDATE idempotency_keys SET removed = 1
          FROM json_to_recordset(${list([...removed.values()])}::text::json) AS asked (account BIGINT, id BIGINT)
          WHERE idempotency_keys.account = asked.account AND idempotency_keys.plant = asked.id`,
    // An existing row with the same key is older than a day, so it is replaced.
    keys.length === 0
      ? undefined
      : sql`
          INSERT INTO idempotency_keys (account, key, request, plant, name, tag, removed, created)
          SELECT account, key, request, plant, name, tag, removed, created
          FROM json_to_recordset(${list(keys)}::text::json) AS asked
            (account BIGINT, key TEXT, request TEXT, plant BIGINT, name TEXT, tag TEXT, removed BIGINT, created BIGINT)
          ON CONFLICT (account, key) DO UPDATE SET request = excluded.request, plant = excluded.plant,
            name = excluded.name, tag = excluded.tag, removed = excluded.removed, created = excluded.created`,
    removed.size === 0 && keys.every((key) => key.removed === 0)
      ? undefined
      : forgetKeys(sql, [...removed.values(), ...keys]),
    removed.size + added.size === 0
      ? undefined
      : renewVersions(
          sql,
          [...removed.values(), ...added.values()].map(({ account }) => account),
        ),
  ])
  if ((deleted?.count ?? 0) !== removed.size || (inserted?.count ?? 0) !== added.size) throw new Conflict()
}

/** Removes the oldest idempotency keys of removed plants from accounts with too many of them. */
function forgetKeys(sql: Transaction, writes: readonly { readonly account: number }[]): Promise<unknown> {
  return sql`
    DELETE FROM idempotency_keys USING (
      SELECT asked.account, old.key
      FROM json_to_recordset(${accountsOf(writes)}::text::json) AS asked (account BIGINT)
      CROSS JOIN LATERAL (
        SELECT key FROM idempotency_keys AS kept WHERE kept.account = asked.account AND removed = 1
        ORDER BY created DESC, plant DESC OFFSET ${maxKeysOfRemoved}
      ) AS old
    ) AS forgotten
    WHERE idempotency_keys.account = forgotten.account AND idempotency_keys.key = forgotten.key`
}

/** The accounts of the writes as JSON, for one parameter of a query. */
function accountsOf(writes: readonly { readonly account: number }[]): string {
  return list([...new Set(writes.map(({ account }) => account))].map((account) => ({ account })))
}

/** Rows as JSON, for one parameter of a query. */
function list(rows: readonly object[]): string {
  return JSON.stringify(rows)
}

/**
 * Gives the plants of these accounts a new version, in the transaction that changes the plants. Versions are random, because
 * counted versions would repeat after a backup is restored. The rows of the versions stay locked until the transaction ends, so
 * that a version never stands for two states of the plants.
 */
export function renewVersions(sql: Transaction, accounts: Iterable<number>) {
  const rows = [...new Set(accounts)].toSorted((a, b) => a - b).map((account) => ({ account }))
  return sql`
    INSERT INTO plant_versions (account, version)
    SELECT account, ${randomUUID()} FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS changed (account BIGINT)
    ON CONFLICT (account) DO UPDATE SET version = excluded.version`
}

/** Gives the plants of an account a new version, as `renewVersions` does. */
export function renewVersion(account: number): Script<unknown> {
  return query(
    `INSERT INTO plant_versions (account, version) VALUES ($1, $2)
    ON CONFLICT (account) DO UPDATE SET version = excluded.version`,
    account,
    randomUUID(),
  )
}

/**
 * The version of all plants that an account sees: its own plants, and plants that other accounts share with it. Null while a
 * replica of an older release runs, because this replica renews no versions. Null also for shares by tag, as `PlantStore.version`.
 */
export async function readVersion(sql: Queries, account: number): Promise<PlantsVersion | null> {
  const [epoch, seen] = await Promise.all([
    versionsEpoch(sql),
    sql<{ account: number; tag: string | null; version: string | null }[]>`
      SELECT seen.account, tag, version FROM (
        SELECT ${account}::bigint AS account, NULL AS tag UNION ALL SELECT owner, tag FROM grants WHERE grantee = ${account}
      ) AS seen LEFT JOIN plant_versions ON plant_versions.account = seen.account
      ORDER BY seen.account, tag`,
  ])
  const grants = seen.flatMap(({ account: owner, tag }) => (tag === null ? [] : [{ owner, tag }]))
  if (epoch === null || sharersOf(grants).some(isByTag)) return null
  const all = [account, epoch, ...seen.map((row) => [row.account, row.tag, row.version])]
  return hash('sha256', JSON.stringify(all), 'base64url')
}
