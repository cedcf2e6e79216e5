import { randomInt, randomUUID } from 'node:crypto'
import type { PostgresDatabase, Queries, Transaction } from './database.ts'

const heartbeatIntervalMs = 3000
/** A replica whose last heartbeat is older than this counts as gone. */
export const goneAfterSeconds = 15

/** One of the replicas of a service over PostgreSQL. It sends heartbeats to the other replicas through the table `replicas`. */
export class Replica {
  readonly id = randomUUID()
  readonly #database: PostgresDatabase
  readonly #onHeartbeat: () => Promise<unknown>
  /** The first heartbeat; undefined again if it has failed. */
  #first: Promise<void> | undefined
  /** Whether the latest heartbeat and its `onHeartbeat` succeeded. The first heartbeat is not counted: until the second, true. */
  #last = Promise.resolve(true)
  #timer: NodeJS.Timeout | undefined
  #hasStarted = false

  /** @param onHeartbeat is called after each successful heartbeat except the first */
  constructor(database: PostgresDatabase, onHeartbeat: () => Promise<unknown>) {
    this.#database = database
    this.#onHeartbeat = onHeartbeat
  }

  /** Begins the heartbeats, and resolves after the first. */
  async live(): Promise<void> {
    this.#timer ??= setInterval(() => {
      const sent = this.#sendHeartbeat().then(this.#onHeartbeat)
      // A failed heartbeat is no error: the next one may succeed.
      this.#last = sent.then(isSent, isFailed)
    }, heartbeatIntervalMs).unref()
    this.#first ??= this.#sendHeartbeat().catch((error: unknown) => {
      this.#first = undefined
      throw error
    })
    await this.#first
  }

  /** Ends the heartbeats, and removes this replica from the table, unless the last heartbeat failed. */
  async leave(): Promise<void> {
    clearInterval(this.#timer)
    if (this.#first === undefined || !(await this.#last)) return
    await this.#database.transaction((sql) => sql`DELETE FROM replicas WHERE id = ${this.id}`)
  }

  async #sendHeartbeat(): Promise<void> {
    await this.#database.transaction(async (sql) => {
      await withoutStandby(sql)
      await sql`
        INSERT INTO replicas (id, seen, renews_versions) VALUES (${this.id}, ${time(sql)}, 1)
        ON CONFLICT (id) DO UPDATE SET seen = excluded.seen`
      await sql`DELETE FROM replicas WHERE seen < ${time(sql)} - ${24 * 60 * 60}::bigint`
      // Replicas of the previous release do not renew the versions of plants. The epoch changes at every heartbeat while
      // such a replica lives. The epoch also changes at the first heartbeat of each replica: before this heartbeat, perhaps only
      // replicas of the previous release lived, and such replicas do not change the epoch.
      await sql`
        UPDATE counters SET value = ${randomInt(2 ** 47)}
        WHERE name = 'plant_versions_epoch' AND (${!this.#hasStarted}::boolean OR EXISTS (${livingOlderReplicas(sql)}))`
    })
    this.#hasStarted = true
  }
}

const isSent = () => true
const isFailed = () => false

/** Selects the ids of the replicas that live. */
export function livingReplicas(sql: Queries) {
  return sql<{ id: string }[]>`SELECT id FROM replicas WHERE seen > ${time(sql)} - ${goneAfterSeconds}::bigint`
}

/** Selects the living replicas of the previous release, which write plants without renewing their versions. */
function livingOlderReplicas(sql: Queries) {
  return sql`SELECT 1 FROM replicas WHERE renews_versions = 0 AND seen > ${time(sql)} - ${goneAfterSeconds}::bigint`
}

/**
 * The epoch of the versions of plants. It changes at each start of a replica, and at each heartbeat while a replica lives that
 * does not renew the versions. Null while such a replica lives.
 */
export async function versionsEpoch(sql: Queries): Promise<number | null> {
  const [row] = await sql<{ value: number }[]>`
    SELECT value FROM counters WHERE name = 'plant_versions_epoch' AND NOT EXISTS (${livingOlderReplicas(sql)})`
  return row?.value ?? null
}

/** Unix seconds by the database's clock, because the clocks of the replicas may differ. */
function time(sql: Queries) {
  return sql`EXTRACT(EPOCH FROM now())::bigint`
}

/**
 * Makes the commit of a transaction not wait for standbys. This is for counts, heartbeats and the last uses of keys. A failover
 * may lose the latest of these writes, but that loss does no harm.
 */
export function withoutStandby(sql: Transaction): Promise<unknown> {
  // `execute` sends the statement immediately, before the next statement. In engines without this setting nothing changes.
  return sql
    .unsafe(`
      SELECT set_config('synchronous_commit', 'local', true)
      WHERE current_setting('synchronous_standby_names', true) <> '' AND current_setting('synchronous_commit') <> 'off'`)
    .execute()
}
