import type { Database, Statement } from 'better-sqlite3'
import { ApiError } from '../errors.ts'
import { openSnapshot } from '../storage/database.ts'
import type { NewPlant, PlantQuery, PlantStore, StoredPlant } from './plant.ts'

interface PlantRow {
  readonly account: number
  readonly id: number
  readonly name: string
  readonly tag: string | null
}

/** How many plants one batch of a long list has: it holds the event loop for about a millisecond. */
const batchSize = 1000

/** Plants in SQLite. */
export class SqlitePlantStore implements PlantStore {
  readonly #database: Database
  readonly #insert: Statement<[number, number, string, string | null]>
  readonly #highestId: Statement<[number], number | null>
  readonly #byId: Statement<[number, number], PlantRow>
  readonly #delete: Statement<[number, number]>
  readonly #pages: PageReader

  constructor(database: Database) {
    this.#database = database
    this.#insert = database.prepare(
      'INSERT INTO plants (account, id, name, tag) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
    )
    this.#highestId = database.prepare<[number], number | null>('SELECT max(id) FROM plants WHERE account = ?').pluck()
    this.#byId = database.prepare('SELECT account, id, name, tag FROM plants WHERE account = ? AND id = ?')
    this.#delete = database.prepare('DELETE FROM plants WHERE account = ? AND id = ?')
    this.#pages = new PageReader(database)
  }

  async create(account: number, plant: NewPlant): Promise<StoredPlant> {
    return this.#database
      .transaction(() => {
        const id = plant.id ?? this.#nextId(account)
        const { changes } = this.#insert.run(account, id, plant.name, plant.tag ?? null)
        if (changes === 0) {
          throw new ApiError(409, 'id_taken', `There is a plant with the id ${id} already. Send another id, or none.`, {
            param: 'id',
          })
        }
        return { account, ...plant, id }
      })
      .immediate()
  }

  async find(account: number, id: number): Promise<StoredPlant | undefined> {
    const row = this.#byId.get(account, id)
    return row && toPlant(row)
  }

  async remove(account: number, id: number): Promise<boolean> {
    return this.#delete.run(account, id).changes > 0
  }

  async list(account: number, query: PlantQuery, limit: number): Promise<readonly StoredPlant[]> {
    return this.#pages.read(account, query, limit)
  }

  async *listAll(account: number, query: PlantQuery): AsyncIterable<readonly StoredPlant[]> {
    // A connection of its own: a list that lasts keeps one snapshot while the other connection writes.
    const snapshot = openSnapshot(this.#database.name)
    try {
      const pages = new PageReader(snapshot)
      let after = query.after
      for (;;) {
        const batch = pages.read(account, { ...query, ...(after ? { after } : {}) }, batchSize)
        if (batch.length > 0) yield batch
        if (batch.length < batchSize) return
        after = batch.at(-1)
      }
    } finally {
      snapshot.close()
    }
  }

  #nextId(account: number): number {
    const highest = this.#highestId.get(account) ?? 0
    if (highest >= Number.MAX_SAFE_INTEGER) {
      throw new ApiError(
        409,
        'no_id_left',
        'The highest id there can be is taken, so none can be assigned. Send an id.',
        {
          param: 'id',
        },
      )
    }
    return Math.max(highest, 0) + 1
  }
}

/** Reads pages of plants by their place in the list, so that page a thousand costs what the first one does. */
class PageReader {
  readonly #all: Statement<[number, number, number], PlantRow>
  readonly #tagged: Statement<[number, string, number, number], PlantRow>

  constructor(database: Database) {
    this.#all = database.prepare(
      'SELECT account, id, name, tag FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ?',
    )
    this.#tagged = database.prepare(
      'SELECT account, id, name, tag FROM plants WHERE account = ? AND tag = ? AND id > ? ORDER BY id LIMIT ?',
    )
  }

  read(account: number, { tag, after }: PlantQuery, limit: number): readonly StoredPlant[] {
    const afterId = after?.id ?? Number.NEGATIVE_INFINITY
    const rows =
      tag === undefined ? this.#all.all(account, afterId, limit) : this.#tagged.all(account, tag, afterId, limit)
    return rows.map(toPlant)
  }
}

function toPlant({ account, id, name, tag }: PlantRow): StoredPlant {
  return tag === null ? { account, id, name } : { account, id, name, tag }
}
