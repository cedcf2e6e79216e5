import { randomInt, randomUUID } from 'node:crypto'
import type { PostgresDatabase, Queries } from './database.ts'
import { withoutStandby } from './standby.ts'

/** Milliseconds between two signs of life of a replica. */
const signInterval = 3000
/** Seconds after which a replica without any is gone. */
export const goneAfter = 15

/** One of those that serve a PostgreSQL. It says every few seconds that it lives, and looks after what others left. */
export class Replica {
  readonly id = randomUUID()
  readonly #database: PostgresDatabase
  readonly #onSign: () => Promise<unknown>
  /** The first sign of life, until it has failed. */
  #first: Promise<void> | undefined
  /** Whether the latest one came through. */
  #last = Promise.resolve(true)
  #signs: NodeJS.Timeout | undefined
  #hasSigned = false

  /** @param onSign is done after each sign of life but the first */
  constructor(database: PostgresDatabase, onSign: () => Promise<unknown>) {
    this.#database = database
    this.#onSign = onSign
  }

  /** Resolves when the others know that this one lives, which they are told from now on. */
  async live(): Promise<void> {
    this.#signs ??= setInterval(() => {
      const signed = this.#sign().then(this.#onSign)
      // The next one may come through.
      this.#last = signed.then(isDone, isNotDone)
    }, signInterval).unref()
    this.#first ??= this.#sign().catch((error: unknown) => {
      this.#first = undefined
      throw error
    })
    await this.#first
  }

  /** Lets the others know that it is gone, as before the database is closed; not where the database is away. */
  async leave(): Promise<void> {
    clearInterval(this.#signs)
    if (this.#first === undefined || !(await this.#last)) return
    await this.#database.transaction((sql) => sql`DELETE FROM replicas WHERE id = ${this.id}`)
  }

  async #sign(): Promise<void> {
    await this.#database.transaction(async (sql) => {
      await withoutStandby(sql)
      await sql`
        INSERT INTO replicas (id, seen, renews_versions) VALUES (${this.id}, ${time(sql)}, 1)
        ON CONFLICT (id) DO UPDATE SET seen = excluded.seen`
      await sql`DELETE FROM replicas WHERE seen < ${time(sql)} - ${24 * 60 * 60}::bigint`
      // Before this one only those may have lived that do not renew the versions.
      await sql`
        UPDATE counters SET value = ${randomInt(2 ** 47)}
        WHERE name = 'plant_versions_epoch' AND (${!this.#hasSigned}::boolean OR EXISTS (${untelling(sql)}))`
    })
    this.#hasSigned = true
  }
}

const isDone = () => true
const isNotDone = () => false

/** Selects the ids of the replicas that live. */
export function livingReplicas(sql: Queries) {
  return sql<{ id: string }[]>`SELECT id FROM replicas WHERE seen > ${time(sql)} - ${goneAfter}::bigint`
}

/** The replicas that live and write plants without renewing their versions: those of the version before. */
function untelling(sql: Queries) {
  return sql`SELECT 1 FROM replicas WHERE renews_versions = 0 AND seen > ${time(sql)} - ${goneAfter}::bigint`
}

/**
 * The epoch of the versions of plants: another one after replicas that do not renew them have lived, and after each start.
 * Null while such a replica lives.
 */
export async function versionsEpoch(sql: Queries): Promise<number | null> {
  const [row] = await sql<{ value: number }[]>`
    SELECT value FROM counters WHERE name = 'plant_versions_epoch' AND NOT EXISTS (${untelling(sql)})`
  return row?.value ?? null
}

/** Unix seconds by the database's clock: those of the replicas may differ. */
function time(sql: Queries) {
  return sql`EXTRACT(EPOCH FROM now())::bigint`
}
