import { randomInt, randomUUID } from 'node:crypto'
import { AccessError } from '../access/access.ts'
import { query, queryEach, type Script, type Value } from '../storage/scripts.ts'

/*
 * What belongs to plants in the file of an account: care rules, events, and photos in pieces. They are copied column by column, so
 * nothing here depends on the room of care.
 */

/** The columns of each kind of line, as the names of its fields. The first is the id of the plant. */
const columns = {
  care: ['every_days', 'season_from', 'season_to', 'season_days', 'set_on', 'last', 'not_before', 'due'],
  event: ['id', 'at', 'note', 'value', 'unit'],
  photo: ['place', 'size', 'digest'],
} as const

/** A care rule, an event, or a piece of a photo. */
export interface Belonging {
  readonly object: keyof typeof columns
  readonly plant: number
  /** The kind of the rule or of the event, or the type of the photo. */
  readonly kind: string
  readonly fields: Readonly<Record<string, string | number | null>>
  /** The bytes of a piece of a photo. */
  readonly bytes?: Buffer
}

/** A statement that exports rows of an account, in their order. `$1` is the account. */
export interface ExportQuery {
  readonly text: string
  /** How many rows are in memory at the same time. */
  readonly rowsPerRead: number
}

/** The number of belongings of an account. */
export const countOfBelongings = `
  (SELECT count(*) FROM care_rules WHERE account = $1)
  + (SELECT count(*) FROM care_logs AS l JOIN care_events AS e ON e.log = l.log WHERE l.account = $1)
  + (SELECT count(*) FROM photos AS p JOIN photo_pieces AS b ON b.photo = p.id WHERE p.account = $1)`

const events = columns.event.map((name) => `e.${name}`).join(', ')

/** The belongings of an account: rules, then events, then photos. */
export const belongingQueries: readonly ExportQuery[] = [
  {
    text: `SELECT 'care' AS object, plant, kind, ${columns.care.join(', ')} FROM care_rules WHERE account = $1 ORDER BY plant, kind`,
    rowsPerRead: 1000,
  },
  {
    text: `SELECT 'event' AS object, l.plant, e.kind, ${events}
      FROM care_logs AS l JOIN care_events AS e ON e.log = l.log WHERE l.account = $1 ORDER BY l.plant, e.id`,
    rowsPerRead: 500,
  },
  {
    text: `SELECT 'photo' AS object, p.plant, d.photo_type AS kind, b.place, p.bytes AS size, d.photo_digest AS digest, b.bytes
      FROM photos AS p JOIN plant_details AS d ON d.account = p.account AND d.plant = p.plant
      JOIN photo_pieces AS b ON b.photo = p.id WHERE p.account = $1 ORDER BY p.plant, b.place`,
    rowsPerRead: 4,
  },
]

/** The line of a row of these statements, with its line end. */
export function belongingLine(row: object): string {
  const fields = Object.entries(row).filter(([, value]) => value !== null)
  const written = fields.map(([name, value]) => [name, Buffer.isBuffer(value) ? value.toString('base64') : value])
  return `${JSON.stringify(Object.fromEntries(written))}\n`
}

/** Reads a line. @returns undefined for the line of a plant @throws AccessError that names the line */
export function readBelonging(fields: Readonly<Record<string, unknown>>, number: number): Belonging | undefined {
  const { object, plant, kind, bytes } = fields
  if (object === undefined) return undefined
  const fault = (problem: string) => new AccessError(`Line ${number}: ${problem}.`)
  if (object !== 'care' && object !== 'event' && object !== 'photo') throw fault('the object is not known here')
  if (typeof plant !== 'number' || !Number.isSafeInteger(plant)) throw fault('the id of the plant is missing')
  if (typeof kind !== 'string') throw fault('the kind is missing')
  const read = columns[object].map((name): [string, string | number | null] => {
    const value = fields[name] ?? null
    if (value === null || typeof value === 'string' || typeof value === 'number') return [name, value]
    throw fault(`"${name}" is neither a text nor a number`)
  })
  const belonging: Belonging = { object, plant, kind, fields: Object.fromEntries(read) }
  if (object !== 'photo') return belonging
  if (typeof bytes !== 'string') throw fault('the bytes of the photo are missing')
  return { ...belonging, bytes: Buffer.from(bytes, 'base64') }
}

/**
 * Adds belongings to plants of an account that are there, and counts them for its limits.
 * @throws AccessError for a plant that is not there
 */
export function* addBelongings(account: number, belongings: readonly Belonging[]): Script<void> {
  const of = (object: Belonging['object']) => belongings.filter((each) => each.object === object)
  const names = columns.care.map((name) => `, ${name}`).join('')
  const places = columns.care.map((_, index) => `, $${index + 4}`).join('')
  yield* checkPlants(account, belongings)
  yield* queryEach(
    `INSERT INTO care_rules (account, plant, kind${names}) VALUES ($1, $2, $3${places}) ON CONFLICT DO NOTHING`,
    of('care').map(({ plant, kind, fields }) => [
      account,
      plant,
      kind,
      ...columns.care.map((name) => fieldOf(fields, name)),
    ]),
  )
  yield* addEvents(account, of('event'))
  for (const piece of of('photo')) yield* addPiece(account, piece)
}

function* checkPlants(account: number, belongings: readonly Belonging[]): Script<void> {
  const ids = [...new Set(belongings.map(({ plant }) => plant))]
  const found = yield* queryEach<{ id: number }>(
    'SELECT id FROM plants WHERE account = $1 AND id = $2',
    ids.map((id) => [account, id]),
  )
  const known = new Set(found.map(({ id }) => id))
  const missing = ids.find((id) => !known.has(id))
  if (missing !== undefined)
    throw new AccessError(`The file has care or photos of the plant ${missing}, which is not there.`)
}

function* addEvents(account: number, events: readonly Belonging[]): Script<void> {
  if (events.length === 0) return
  const plants = [...new Set(events.map(({ plant }) => plant))]
  yield* queryEach(
    'INSERT INTO care_logs (log, owner, account, plant) VALUES ($1, $2, $2, $3) ON CONFLICT (account, plant) DO NOTHING',
    plants.map((plant) => [randomInt(2 ** 48 - 1), account, plant]),
  )
  yield* queryEach(
    `INSERT INTO care_events (log, kind, id, at, note, value, unit)
    SELECT log, $3, $4, $5, $6, $7, $8 FROM care_logs WHERE account = $1 AND plant = $2`,
    events.map(({ plant, kind, fields }) => [
      account,
      plant,
      kind,
      ...columns.event.map((name) => fieldOf(fields, name)),
    ]),
  )
  yield* hold(account, 'events', events.length)
}

/** Adds a piece of a photo. The photo is shown when its last piece is there. */
function* addPiece(account: number, { plant, kind, fields, bytes = Buffer.alloc(0) }: Belonging): Script<void> {
  const [place, size, digest] = columns.photo.map((name) => fieldOf(fields, name))
  if (place === 0) {
    const text = 'INSERT INTO photos (id, owner, bytes, begun, account, plant) VALUES ($1, $2, $3, 0, $2, $4)'
    yield* query(text, randomUUID(), account, size ?? 0, plant)
    yield* hold(account, 'photo_bytes', Number(size))
  }
  const [photo] = yield* query<{ id: string; there: number }>(
    `SELECT id, (SELECT CAST(coalesce(sum(length(b.bytes)), 0) AS BIGINT) FROM photo_pieces AS b WHERE b.photo = photos.id) AS there
    FROM photos WHERE account = $1 AND plant = $2`,
    ...[account, plant],
  )
  if (!photo) throw new AccessError(`The file has no beginning of the photo of the plant ${plant}.`)
  yield* query('INSERT INTO photo_pieces (photo, place, bytes) VALUES ($1, $2, $3)', photo.id, place ?? 0, bytes)
  if (photo.there + bytes.length < Number(size)) return
  yield* query(
    `INSERT INTO plant_details (account, plant, photo_type, photo_bytes, photo_digest) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (account, plant) DO UPDATE SET photo_type = excluded.photo_type, photo_bytes = excluded.photo_bytes,
      photo_digest = excluded.photo_digest`,
    ...[account, plant, kind, size ?? 0, digest ?? null],
  )
}

function hold(account: number, what: 'events' | 'photo_bytes', more: number): Script<unknown> {
  return query(
    `INSERT INTO holdings (account, ${what}) VALUES ($1, $2) ON CONFLICT (account) DO UPDATE SET ${what} = holdings.${what} + excluded.${what}`,
    ...[account, more],
  )
}

function fieldOf(fields: Belonging['fields'], name: string): Value {
  return fields[name] ?? null
}
