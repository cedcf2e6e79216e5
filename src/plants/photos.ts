import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { bufferOf } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import { type Prunable, pruneOnce } from '../storage/prune.ts'
import { rowOf, rowsOf, type Script, type Scripts, sql } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { nextVersion } from './details.ts'
import { type NewPhoto, type PhotoFacts, photoTypes } from './photo.ts'
import type { PlantStore } from './plant.ts'
import { unknownPlant } from './policy.ts'

/** The bytes of a piece of a photo. */
const pieceBytes = 256 * 1024
/** The most pieces and photos that one transaction removes: in SQLite this takes some 5 ms. */
const maxRemoved = 8
/** Seconds after which an unfinished photo counts as abandoned; a usual one is written in a second. */
export const photoTtlSeconds = 3600

/** A photo in the database. */
export interface StoredPhoto extends PhotoFacts {
  /** Names the pieces. */
  readonly id: string
}

/**
 * The photos of plants. A photo is written in pieces, and then shown in one transaction. So a photo is there as a whole or not at
 * all, and no write takes long. The pieces of replaced photos and of deleted plants are removed later, by `prune`. All these bytes
 * are in `holdings` until they are removed.
 */
export class Photos implements Prunable {
  readonly #plants: Pick<PlantStore, 'change'>
  readonly #scripts: Scripts

  constructor(plants: Pick<PlantStore, 'change'>, scripts: Scripts) {
    this.#plants = plants
    this.#scripts = scripts
  }

  /** The photo of an own plant of the account. @throws ApiError 404 when there is no such plant, or it has no photo */
  find(account: number, plant: number): Promise<StoredPhoto> {
    return this.#scripts.read(function* () {
      const photo = yield* photoOf(account, plant)
      if (!photo) throw new ApiError(404, 'unknown_photo', 'This plant has no photo. Send one with PUT.')
      return photo
    })
  }

  /** The bytes of a photo; undefined if the photo was replaced or removed meanwhile. */
  async read({ id, bytes }: StoredPhoto): Promise<Buffer | undefined> {
    const whole = Buffer.allocUnsafeSlow(bytes)
    for (let at = 0, place = 0; at < bytes; place++) {
      const piece = await this.#scripts.read(() =>
        rowOf<{ bytes: Buffer }>(sql`SELECT bytes FROM photo_pieces WHERE photo = ${id} AND place = ${place}`),
      )
      if (!piece) return undefined
      at += piece.bytes.copy(whole, at)
      await setImmediate()
    }
    return whole
  }

  /**
   * Sets the photo of an own plant. A photo that the plant has already is not written again.
   * @param limit how many bytes the photos of the account may have; by default any number
   * @throws ApiError 404 when there is no such plant, 429 when the limit is reached, and the errors of `Scripts.write`
   */
  async put(account: number, plant: number, photo: NewPhoto, limit = Number.POSITIVE_INFINITY): Promise<void> {
    const id = randomUUID()
    const { facts, picture } = photo
    if (!(await this.#scripts.write(account, () => begin(account, plant, { id, ...facts }, limit)))) return
    try {
      for (let place = 0; place * pieceBytes < picture.length; place++) {
        const piece = bufferOf(picture.subarray(place * pieceBytes, (place + 1) * pieceBytes))
        // The piece may be there already: over PostgreSQL, a transaction whose end is unknown runs again.
        const insert = sql`
          INSERT INTO photo_pieces (photo, place, bytes) VALUES (${id}, ${place}, ${piece}) ON CONFLICT DO NOTHING`
        await this.#scripts.writeAside(() => rowsOf(insert))
      }
      await this.#plants.change(account, () => show(account, plant, { id, ...facts }))
    } catch (error) {
      // If this fails too, the pieces are removed after an hour.
      const abandon = sql`UPDATE photos SET begun = 0 WHERE id = ${id}`
      await this.#scripts.writeAside(() => rowsOf(abandon)).catch(() => undefined)
      throw error
    }
  }

  /** Removes the photo of an own plant. @throws ApiError 404 when there is no such plant, or it has no photo */
  async remove(account: number, plant: number): Promise<void> {
    await this.find(account, plant)
    await this.#plants.change(account, function* () {
      if (!(yield* photoOf(account, plant))) return
      yield* hide(account, plant)
      const ofPlant = sql`account = ${account} AND plant = ${plant}`
      yield* rowsOf(sql`
        UPDATE plant_details SET photo_type = NULL, photo_bytes = NULL, photo_digest = NULL WHERE ${ofPlant}`)
      yield* rowsOf(sql`
        DELETE FROM plant_details
        WHERE ${ofPlant} AND coalesce(species, light, acquired, notes) IS NULL`)
      yield* renew(account, plant)
    })
  }

  /** How many bytes the photos of the account's plants have. */
  bytesOf(account: number): Promise<number> {
    return this.#scripts.read(() => bytesOf(account))
  }

  /** Removes all photos without a plant, in short transactions. If that fails, the service removes them later. */
  async removeAllLeft(): Promise<void> {
    await pruneOnce(this, unixSeconds() - photoTtlSeconds).catch(() => undefined)
  }

  /** Removes pieces of photos without a plant. @param before the time at which an unfinished photo must have begun */
  prune(before: number): Promise<number> {
    return this.#scripts.writeAside(() => removeLeft(before))
  }
}

/** The photo of a plant; undefined for a plant without one. @throws ApiError 404 when the account has no such plant */
function* photoOf(account: number, plant: number): Script<StoredPhoto | undefined> {
  const row = yield* rowOf<{ id: string | null; type: string; bytes: number; digest: string }>(sql`
    SELECT photos.id, photo_type AS type, photo_bytes AS bytes, photo_digest AS digest
    FROM plants
    LEFT JOIN photos ON photos.account = plants.account AND photos.plant = plants.id
    LEFT JOIN plant_details ON plant_details.account = plants.account AND plant_details.plant = plants.id
    WHERE plants.account = ${account} AND plants.id = ${plant}`)
  if (!row) throw unknownPlant()
  const type = photoTypes.find((each) => each === row.type)
  return row.id === null || !type ? undefined : { ...row, id: row.id, type }
}

/** Counts the bytes of a photo before its pieces are written. @returns false if the plant has this photo already */
function* begin(account: number, plant: number, photo: StoredPhoto, limit: number): Script<boolean> {
  const before = yield* photoOf(account, plant)
  if (before?.digest === photo.digest) return false
  const others = (yield* bytesOf(account)) - (before?.bytes ?? 0)
  if (others + photo.bytes > limit) throw limitReached(limit, others, photo.bytes)
  yield* rowsOf(sql`
    INSERT INTO photos (id, owner, bytes, begun) VALUES (${photo.id}, ${account}, ${photo.bytes}, ${unixSeconds()})`)
  yield* rowsOf(sql`
    INSERT INTO holdings (account, photo_bytes) VALUES (${account}, ${photo.bytes})
    ON CONFLICT (account) DO UPDATE SET photo_bytes = holdings.photo_bytes + excluded.photo_bytes`)
  return true
}

/** Makes a written photo the photo of its plant. @throws ApiError 404 when the plant was deleted meanwhile */
function* show(account: number, plant: number, photo: StoredPhoto): Script<void> {
  yield* photoOf(account, plant)
  yield* hide(account, plant)
  yield* rowsOf(sql`UPDATE photos SET begun = 0, account = ${account}, plant = ${plant} WHERE id = ${photo.id}`)
  yield* rowsOf(sql`
    INSERT INTO plant_details (account, plant, photo_type, photo_bytes, photo_digest)
    VALUES (${account}, ${plant}, ${photo.type}, ${photo.bytes}, ${photo.digest})
    ON CONFLICT (account, plant) DO UPDATE SET photo_type = excluded.photo_type, photo_bytes = excluded.photo_bytes,
      photo_digest = excluded.photo_digest`)
  yield* renew(account, plant)
}

function hide(account: number, plant: number): Script<unknown> {
  return rowsOf(sql`UPDATE photos SET account = NULL, plant = NULL WHERE account = ${account} AND plant = ${plant}`)
}

function renew(account: number, plant: number): Script<unknown> {
  const now = nextVersion()
  return rowsOf(sql`
    UPDATE plants SET version = CASE WHEN version < ${now} THEN ${now} ELSE version + 1 END, updated = ${unixSeconds()}
    WHERE account = ${account} AND id = ${plant}`)
}

/** The bytes of the photos of an account, without those that will be removed. */
function* bytesOf(account: number): Script<number> {
  const row = yield* rowOf<{ bytes: number }>(sql`
    SELECT photo_bytes - (
      SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM photos WHERE plant IS NULL AND begun = 0 AND owner = ${account}
    ) AS bytes FROM holdings WHERE account = ${account}`)
  return row?.bytes ?? 0
}

/** @returns how many pieces and photos were removed */
function* removeLeft(before: number): Script<number> {
  let removed = 0
  while (removed < maxRemoved) {
    // The update locks the row, so that two replicas do not count its bytes twice.
    const left = yield* rowOf<{ id: string; owner: number; bytes: number }>(sql`
      UPDATE photos SET begun = 0 WHERE plant IS NULL AND id = (
        SELECT id FROM photos WHERE plant IS NULL AND begun < ${before} ORDER BY begun LIMIT 1
      ) RETURNING id, owner, bytes`)
    if (!left) break
    const pieces = yield* rowsOf(sql`
      DELETE FROM photo_pieces WHERE photo = ${left.id} AND place IN (
        SELECT place FROM photo_pieces WHERE photo = ${left.id} ORDER BY place LIMIT ${maxRemoved - removed}
      ) RETURNING place`)
    removed += pieces.length
    if (removed === maxRemoved) break
    yield* rowsOf(sql`DELETE FROM photos WHERE id = ${left.id}`)
    yield* rowsOf(sql`UPDATE holdings SET photo_bytes = photo_bytes - ${left.bytes} WHERE account = ${left.owner}`)
    removed++
  }
  return removed
}

/** @throws ApiError 429 without `Retry-After`, because waiting does not help */
function limitReached(limit: number, others: number, added: number): ApiError {
  const message = `The limit "photo_bytes" is ${limit}; the other photos of the account have ${others} bytes, and this one has ${added}. Delete photos, or ask the operator for more.`
  return new ApiError(429, 'photo_bytes_limit', message)
}
