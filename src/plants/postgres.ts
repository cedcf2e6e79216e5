import { runAudited } from '../audit/postgres.ts'
import { commandLine, type Recorder } from '../audit/record.ts'
import type { Metric } from '../instruments.ts'
import type { PostgresDatabase, Queries } from '../storage/postgres/database.ts'
import { PostgresGroupCommit } from '../storage/postgres/group-commit.ts'
import { outsideRequest } from '../storage/postgres/request-time.ts'
import { PostgresScripts, runScript } from '../storage/postgres/scripts.ts'
import { query, type Script, type Scripts } from '../storage/scripts.ts'
import { accountGone } from '../storage/write-error.ts'
import { addMany, checkMany } from './add-many.ts'
import { keptCursorKey } from './cursor.ts'
import { InFlightKeys } from './idempotency.ts'
import { removeOldReplies } from './kept-replies.ts'
import type {
  AddedPlant,
  Idempotency,
  ManyAdded,
  ManyPlants,
  PagesOf,
  PlantPage,
  PlantQuery,
  PlantStore,
  PlantsVersion,
  Position,
  Share,
  StoredPlant,
} from './plant.ts'
import { type PlantWrite, readVersion, renewVersion, type WriteResult, writePlants } from './postgres-writes.ts'
import {
  type GrantRow,
  type IdRange,
  type PlantRow,
  pageOf,
  pagesOf,
  rangesOf,
  type Sharer,
  sharersOf,
  toPlant,
  type VersionedRow,
} from './rows.ts'
import type { NewPlant } from './schemas.ts'
import { allShares, grant, revoke } from './shares.ts'

/** Numbers below and above every possible id. */
const belowAllIds = -(2 ** 53)
const aboveAllIds = 2 ** 53

/** The most plants that one query skips. To skip this number takes PostgreSQL about 10 ms. */
const skippedAtOnce = 50_000

/** Plants in PostgreSQL. No plant or version is cached, because other replicas write too. */
export class PostgresPlantStore implements PlantStore {
  readonly #database: PostgresDatabase
  readonly #writes: PostgresGroupCommit<PlantWrite, WriteResult>
  readonly #scripts: Scripts
  readonly #running = new InFlightKeys()
  /**
   * The search for expired idempotency keys starts at this Unix second. The rows of older keys are removed, but stay in the index
   * until VACUUM.
   */
  #keysFrom = 0

  /** @param scripts the scripts of the same database, whose transactions the changes of plants share */
  constructor(database: PostgresDatabase, scripts: Scripts = new PostgresScripts(database)) {
    this.#database = database
    this.#scripts = scripts
    this.#writes = new PostgresGroupCommit(database, { commit: writePlants, ownerOf: ({ account }) => account })
  }

  /** Metrics of the group commit. */
  get metrics(): readonly Metric[] {
    return this.#writes.metrics
  }

  create(account: number, plant: NewPlant, idempotency?: Idempotency, limit?: number): Promise<AddedPlant> {
    const add = async () => {
      const { added } = await this.#writes.add({ account, plant, idempotency, limit })
      if (!added) throw new Error('the write of a new plant has no plant in its result')
      return added
    }
    return idempotency ? this.#running.run(account, idempotency, add) : add()
  }

  /** Adds the plants in a transaction of its own, and not in a group commit: the writes of other accounts would wait for it. */
  createMany(many: ManyPlants): Promise<ManyAdded> {
    const { account } = many
    return runAudited(this.#database, function* (record) {
      const locked = yield* query('SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE', account)
      if (locked.length === 0) throw accountGone(undefined)
      const added = yield* addMany(many, { count: (enough) => countScript(account, enough), record })
      yield* renewVersion(account)
      return added
    })
  }

  async checkMany(many: ManyPlants): Promise<void> {
    const { account } = many
    await this.#scripts.read(() => checkMany(many, { count: (enough) => countScript(account, enough) }))
  }

  async removeExpiredKeys(before: number, maxRows: number): Promise<number> {
    // Skips keys that another replica is removing or a request is using again, so that no transaction waits for another.
    const removed = await this.#database.transaction(
      (sql) => sql<{ created: number }[]>`
        WITH old AS (
          SELECT account, key FROM idempotency_keys WHERE created < ${before} AND created >= ${this.#keysFrom}
          ORDER BY created LIMIT ${maxRows} FOR UPDATE SKIP LOCKED
        )
        DELETE FROM idempotency_keys USING old
        WHERE idempotency_keys.account = old.account AND idempotency_keys.key = old.key RETURNING created`,
    )
    this.#keysFrom = removed.reduce((latest, { created }) => Math.max(latest, created), 0)
    if (removed.length > 0) return removed.length
    return await this.#database.transaction((sql) => runScript(sql, removeOldReplies(before, maxRows)))
  }

  cursorKey(): Promise<Buffer> {
    return this.#database.transaction((sql) => runScript(sql, keptCursorKey()))
  }

  /** Always null: only the database knows the version, because another replica may have written. */
  version(): PlantsVersion | null {
    return null
  }

  fetchVersion(account: number): Promise<PlantsVersion | null> {
    return this.#database.read((sql) => readVersion(sql, account))
  }

  async find(account: number, id: number) {
    const [row] = await this.#database.read(
      (sql) => sql<VersionedRow[]>`
        SELECT account, id, name, tag, version FROM plants WHERE account = ${account} AND id = ${id}`,
    )
    return row && { ...toPlant(row), version: row.version }
  }

  count(account: number, enough?: number): Promise<number> {
    return this.#scripts.read(() => countScript(account, enough))
  }

  change<T>(account: number, script: () => Script<T>): Promise<T> {
    return this.#scripts.write(account, function* () {
      const result = yield* script()
      yield* renewVersion(account)
      return result
    })
  }

  async remove(account: number, id: number, check?: (version: number) => void): Promise<boolean> {
    return (await this.#writes.add({ account, id, check })).isRemoved === true
  }

  list(account: number, query: PlantQuery, limit: number): Promise<PlantPage> {
    return this.#database.read(async (sql) => {
      // Most lists have only the account's own plants, so these plants and the grants are read in parallel.
      const own = [...rangesOf(account, [], query)]
      const [found, sharers] = await Promise.all([readRanges(sql, own, limit + 1), readSharers(sql, account)])
      const others = [...rangesOf(account, sharers, query)].slice(own.length)
      const plants = [...found, ...(await readRanges(sql, others, limit + 1 - found.length))]
      return pageOf(plants, limit, query.withIds ? account : undefined)
    })
  }

  listLong<T>(
    account: number,
    query: PlantQuery,
    use: (pages: PagesOf) => AsyncIterable<T>,
    limit = Number.POSITIVE_INFINITY,
  ): AsyncIterable<T> {
    // Each page is a query of its own, so a slow reader keeps no connection and no snapshot between two pages.
    const read = (from: PlantQuery, length: number) => outsideRequest(() => this.list(account, from, length))
    return use((upTo) => pagesOf({ ...query, upTo }, limit, read))
  }

  async endOfPage(account: number, query: PlantQuery, limit: number): Promise<Position | undefined> {
    let from = query
    for (let left = limit; left > 0; left -= skippedAtOnce) {
      const after = await this.#positionAt(account, from, Math.min(left, skippedAtOnce) - 1)
      if (!after) return undefined
      from = { ...query, after }
    }
    return (await this.#positionAt(account, from, 0)) && from.after
  }

  /** The position of the plant with this index in a list, counted from 0. */
  #positionAt(account: number, query: PlantQuery, index: number): Promise<Position | undefined> {
    const find = async (sql: Queries) => {
      let left = index
      for (const range of rangesOf(account, await readSharers(sql, account), query)) {
        const [plant] = await readRange(sql, range, 1, left)
        if (plant) return { account: plant.account, id: plant.id }
        if (left > 0) left -= await countIn(sql, range, left)
      }
      return undefined
    }
    return outsideRequest(() => this.#database.read(find))
  }

  share(account: number, grantee: number, tag?: string, by = commandLine): Promise<boolean> {
    return this.#changeShares(grantee, (record) => grant({ account, grantee, tag }, by, record))
  }

  unshare(account: number, grantee: number, tag?: string, by = commandLine): Promise<boolean> {
    return this.#changeShares(grantee, (record) => revoke({ account, grantee, tag }, by, record))
  }

  shares(): Promise<readonly Share[]> {
    return this.#database.read((sql) => runScript(sql, allShares()))
  }

  #changeShares(grantee: number, change: (record: Recorder) => Script<boolean>): Promise<boolean> {
    return runAudited(this.#database, function* (record) {
      yield* renewVersion(grantee)
      return yield* change(record)
    })
  }
}

function* countScript(account: number, enough?: number): Script<number> {
  const text = 'SELECT count(*) FROM (SELECT 1 FROM plants WHERE account = $1 LIMIT $2) AS counted'
  const [row] = yield* query<{ count: number }>(text, account, enough ?? null)
  return row?.count ?? 0
}

/** The accounts that share plants with this account, sorted by id. */
async function readSharers(sql: Queries, account: number): Promise<readonly Sharer[]> {
  return sharersOf(await sql<GrantRow[]>`SELECT owner, tag FROM grants WHERE grantee = ${account} ORDER BY owner, tag`)
}

/** At most `limit` plants of these ranges, in order. */
async function readRanges(sql: Queries, ranges: Iterable<IdRange>, limit: number): Promise<readonly StoredPlant[]> {
  const found: StoredPlant[] = []
  for (const range of ranges) {
    if (found.length === limit) break
    for (const row of await readRange(sql, range, limit - found.length)) found.push(toPlant(row))
  }
  return found
}

/** The number of plants in a range. @param enough the count may stop at this number */
async function countIn(sql: Queries, range: IdRange, enough: number): Promise<number> {
  const [row] = await sql<{ count: number }[]>`SELECT count(*) FROM (${readRange(sql, range, enough)}) AS counted`
  return row?.count ?? 0
}

/** @param offset the number of plants that are skipped */
function readRange(sql: Queries, range: IdRange, limit: number, offset = 0) {
  const { account, tags, afterId = belowAllIds, upToId = aboveAllIds } = range
  if (tags === undefined) {
    return sql<PlantRow[]>`
      SELECT account, id, name, tag FROM plants WHERE account = ${account} AND id > ${afterId} AND id <= ${upToId}
      ORDER BY id LIMIT ${limit} OFFSET ${offset}`
  }
  // The query has one index scan for each tag, which reads only the plants that the range may need.
  return sql<PlantRow[]>`
    SELECT tagged.account, tagged.id, tagged.name, tagged.tag
    FROM json_to_recordset(${JSON.stringify(tags.map((tag) => ({ tag })))}::text::json) AS asked (tag TEXT)
    CROSS JOIN LATERAL (
      SELECT account, id, name, tag FROM plants
      WHERE account = ${account} AND plants.tag = asked.tag AND id > ${afterId} AND id <= ${upToId}
      ORDER BY id LIMIT ${limit + offset}
    ) AS tagged
    ORDER BY tagged.id LIMIT ${limit} OFFSET ${offset}`
}
