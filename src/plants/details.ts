import { isDeepStrictEqual } from 'node:util'
import { query, queryEach, rowOf, rowsOf, type Script, sql } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { foldedColumns } from './fold.ts'
import type { PhotoType } from './photo.ts'
import { checkedPlant, type StoredPlant } from './plant.ts'
import { unknownPlant } from './policy.ts'
import type { NewPlant, Plant, PlantChange } from './schemas.ts'

/** A plant with everything that replies show of it. */
export interface DetailedPlant extends StoredPlant {
  /** Unix seconds. */
  readonly created: number
  /** Unix seconds. */
  readonly updated: number
  /** Grows with each change of the plant, its details and its photo: see `nextVersion`. */
  readonly version: number
  readonly photo?: NonNullable<Plant['photo']>
}

/** The details of a plant that have a row of their own. */
export interface DetailsRow {
  readonly species: string | null
  readonly light: string | null
  readonly acquired: string | null
  readonly notes: string | null
}

/** The columns of the table `plants` that a caller sets, and the columns by which the plant is found. */
export function columnsOf(plant: NewPlant) {
  const { name, tag = null, place = null, archived = false } = plant
  return { name, tag, place, archived: archived ? 1 : 0, ...foldedColumns(plant) }
}

/** The row of `plant_details`; undefined for a plant that needs none. */
export function detailsRowOf({ species, light, acquired, notes }: NewPlant): DetailsRow | undefined {
  if (species === undefined && light === undefined && acquired === undefined && notes === undefined) return undefined
  return { species: species ?? null, light: light ?? null, acquired: acquired ?? null, notes: notes ?? null }
}

/**
 * The version of a plant after a change. It is the time in milliseconds, so that a plant never gets a version again that its id had
 * before: not if it is deleted and added again, and not after a backup is restored.
 * @param version the version before the change; 0 for a new plant
 */
export function nextVersion(version = 0): number {
  return Math.max(version + 1, Date.now())
}

/** Inserts plants of an account whose ids are free. @param now Unix seconds */
export function* insertPlants(
  account: number,
  plants: readonly (NewPlant & { id: number })[],
  now: number,
): Script<void> {
  const columns = plants.map((plant) => ({ id: plant.id, ...columnsOf(plant) }))
  const version = nextVersion()
  yield* queryEach(
    `INSERT INTO plants (account, id, name, tag, place, archived, folded, found, created, updated, version)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10)`,
    columns.map(({ id, name, tag, place, archived, folded, found }) => [
      ...[account, id, name, tag, place, archived, folded, found, now, version],
    ]),
  )
  yield* insertDetails(account, plants)
}

/** Inserts the details of plants that have no row of details yet. */
export function* insertDetails(account: number, plants: readonly (NewPlant & { id: number })[]): Script<void> {
  const lists = plants.flatMap((plant) => {
    const row = detailsRowOf(plant)
    return row ? [[account, plant.id, row.species, row.light, row.acquired, row.notes]] : []
  })
  if (lists.length === 0) return
  yield* queryEach(
    'INSERT INTO plant_details (account, plant, species, light, acquired, notes) VALUES ($1, $2, $3, $4, $5, $6)',
    lists,
  )
}

/**
 * Changes a plant by a JSON Merge Patch (RFC 7396). A patch that changes nothing writes nothing.
 * @param check throws an ApiError if the plant must not be changed in this version
 * @returns the changed plant
 * @throws ApiError 404 when there is no such plant, 400 that names a field
 */
export function* changePlant(
  account: number,
  id: number,
  change: PlantChange,
  check?: (version: number) => void,
): Script<DetailedPlant> {
  const plant = (yield* readDetailed(account, [id])).get(id)
  if (!plant) throw unknownPlant()
  const merged = checkedPlant({
    name: change.name ?? plant.name,
    tag: changed(change.tag, plant.tag),
    species: changed(change.species, plant.species),
    place: changed(change.place, plant.place),
    light: changed(change.light, plant.light),
    acquired: changed(change.acquired, plant.acquired),
    notes: changed(change.notes, plant.notes),
    archived: changed(change.archived, plant.archived),
  })
  check?.(plant.version)
  if (isDeepStrictEqual(merged, checkedPlant({ ...plant, id: undefined }))) return plant
  const { created, version, photo } = plant
  const updated = unixSeconds()
  const next = { account, id, ...merged, created, updated, version: nextVersion(version), ...(photo && { photo }) }
  yield* updatePlant(next)
  return next
}

/** The value of a field after a change: null removes it, and undefined leaves it as it is. */
function changed<T>(change: T | null | undefined, before: T | undefined): T | undefined {
  return change === undefined ? before : (change ?? undefined)
}

/** Writes the new state of a plant. */
function* updatePlant(plant: DetailedPlant): Script<void> {
  const { account, id, photo, updated, version } = plant
  const { name, tag, place, archived, folded, found } = columnsOf(plant)
  yield* rowsOf(sql`
    UPDATE plants SET name = ${name}, tag = ${tag}, place = ${place}, archived = ${archived}, folded = ${folded},
      found = ${found}, updated = ${updated}, version = ${version}
    WHERE account = ${account} AND id = ${id}`)
  const row = detailsRowOf(plant)
  if (!row && !photo) {
    yield* rowsOf(sql`DELETE FROM plant_details WHERE account = ${account} AND plant = ${id}`)
    return
  }
  const { species = null, light = null, acquired = null, notes = null } = row ?? {}
  yield* rowsOf(sql`
    INSERT INTO plant_details (account, plant, species, light, acquired, notes)
    VALUES (${account}, ${id}, ${species}, ${light}, ${acquired}, ${notes})
    ON CONFLICT (account, plant) DO UPDATE SET species = excluded.species, light = excluded.light,
      acquired = excluded.acquired, notes = excluded.notes`)
}

interface DetailedRow extends DetailsRow {
  readonly account: number
  readonly id: number
  readonly name: string
  readonly tag: string | null
  readonly place: string | null
  readonly archived: number
  readonly created: number
  readonly updated: number
  readonly version: number
  readonly photo_type: PhotoType | null
  readonly photo_bytes: number | null
  readonly photo_digest: string | null
}

/** The most plants that one statement reads: with their notes, they have up to 1 MB. */
export const plantsPerRead = 50

const selectDetailed = `
  SELECT p.account, p.id, name, tag, place, archived, created, updated, version, species, light, acquired, notes,
    photo_type, photo_bytes, photo_digest
  FROM plants AS p LEFT JOIN plant_details AS d ON d.account = p.account AND d.plant = p.id
  WHERE p.account = $1 AND p.id`
const selectOne = `${selectDetailed} = $2`
const selectMany = `${selectDetailed} IN (${Array.from({ length: plantsPerRead }, (_none, index) => `$${index + 2}`)})`

/**
 * Reads plants of an account with their details. A plant that does not exist is left out.
 * @param ids at most `plantsPerRead` ids
 * @returns the plants, by id
 */
export function* readDetailed(account: number, ids: readonly number[]): Script<ReadonlyMap<number, DetailedPlant>> {
  const [first = 0, ...others] = ids
  // A statement of many ids has always the same number of values, so that there is one prepared statement.
  const padding = Array.from({ length: plantsPerRead - ids.length }, () => first)
  const rows =
    others.length === 0
      ? yield* query<DetailedRow>(selectOne, account, first)
      : yield* query<DetailedRow>(selectMany, account, first, ...others, ...padding)
  return new Map((yield* toDetailed(rows)).map((plant) => [plant.id, plant]))
}

/** The account's plants with their details, by id. @param after only plants with higher ids */
export function* readDetailedAfter(account: number, after: number, limit: number): Script<readonly DetailedPlant[]> {
  const text = `${selectDetailed} > $2 ORDER BY p.id LIMIT $3`
  return yield* toDetailed(yield* query<DetailedRow>(text, account, after, limit))
}

function* toDetailed(rows: readonly DetailedRow[]): Script<readonly DetailedPlant[]> {
  const isOld = rows.some(({ created, updated }) => created === 0 || updated === 0)
  const migrated = isOld ? yield* migrationTime() : 0
  return rows.map((row) => detailedOf(row, migrated))
}

/** When the database got these columns, in Unix seconds: the time of plants that are older. */
function* migrationTime(): Script<number> {
  const row = yield* rowOf<{ applied: number }>(
    sql`SELECT applied FROM migrations WHERE name LIKE ${'%-plants-worth-keeping'}`,
  )
  return row?.applied ?? 0
}

function detailedOf(row: DetailedRow, migrated: number): DetailedPlant {
  const { account, id, name, tag, species, place, light, acquired, notes, photo_type: type } = row
  return {
    account,
    id,
    name,
    ...(tag !== null && { tag }),
    ...(species !== null && { species }),
    ...(place !== null && { place }),
    ...(light !== null && { light }),
    ...(acquired !== null && { acquired }),
    ...(notes !== null && { notes }),
    ...(row.archived === 1 && { archived: true }),
    created: row.created || migrated,
    updated: row.updated || migrated,
    version: row.version,
    ...(type !== null && { photo: { type, bytes: row.photo_bytes ?? 0, digest: row.photo_digest ?? '' } }),
  }
}
