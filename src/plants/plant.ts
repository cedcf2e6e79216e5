import type { Actor } from '../audit/record.ts'
import { type ApiError, invalidField } from '../errors.ts'
import type { Script } from '../storage/scripts.ts'
import { controlCharacters, type NameRule, nameProblem } from '../text.ts'
import { isCalendarDay } from '../time.ts'
import type { NewPlant, Plant } from './schemas.ts'

/** A plant with the account that owns it and its id in that account. */
export interface StoredPlant extends NewPlant {
  readonly account: number
  readonly id: number
}

/** A plant as replies show it. @param withId whether to show the id, which only the owner may see */
export function toReply({ id, name, tag }: StoredPlant, withId: boolean): Plant {
  const reply = tag === undefined ? { name } : { name, tag }
  return withId ? { id, ...reply } : reply
}

/** A position in a caller's list: first the caller's plants by id, then the plants of other accounts by account and id. */
export interface Position {
  readonly account: number
  readonly id: number
}

/** Consecutive plants of a list. */
export interface PlantPage {
  /** The plants as the text of a JSON array, ready to send. */
  readonly json: string
  /** The position of the last plant, if more plants follow. */
  readonly last?: Position
}

/** Reads the pages of a list from the first page on, up to a position if it is given. Each call reads the pages again. */
export type PagesOf = (upTo?: Position) => AsyncIterable<PlantPage>

/** Selects some of the plants that an account may see. */
export interface PlantQuery {
  readonly tag?: string
  /** Only plants after this position. */
  readonly after?: Position
  /** Only plants up to this position; used only with a store with `endOfPage`. */
  readonly upTo?: Position | undefined
  /** Whether the account's own plants are shown with their ids. Plants of other accounts are always shown without ids. */
  readonly withIds?: boolean
}

/** Identifies a repeated request: the caller's idempotency key, and a digest of the body. */
export interface Idempotency {
  readonly key: string
  readonly request: string
}

/** A plant that was added, by this request or by an earlier one with the same idempotency key. */
export interface AddedPlant {
  readonly plant: StoredPlant
  /** When the plant was added, in Unix seconds. */
  readonly created: number
  readonly isReplay: boolean
}

/** Plants to add in one transaction: all or none. */
export interface ManyPlants {
  readonly account: number
  readonly plants: readonly NewPlant[]
  /** Names the place of a plant in the request in the error of this plant. */
  readonly faultAt: (index: number, error: ApiError) => ApiError
  /** A repeated request gets the first reply for 24 hours. */
  readonly idempotency?: Idempotency | undefined
  /** How many plants the account may have; by default any number. */
  readonly limit?: number | undefined
  /** The author of an import, which the audit trail records. Other additions are not recorded. */
  readonly importedBy?: Actor | undefined
}

/** The plants of a request that are added now, or were when the request was first sent. */
export interface ManyAdded {
  readonly plants: readonly StoredPlant[]
  /** When they were added, in Unix seconds. */
  readonly created: number
  readonly isReplay: boolean
}

/** The permission of one account to see the plants of another. */
export interface Share {
  /** The owner's name. */
  readonly from: string
  /** The name of the account that may see the plants. */
  readonly to: string
  /** Only plants with this tag; null for all plants. */
  readonly tag: string | null
  /** Unix seconds. */
  readonly created: number
}

/** An opaque version of all plants that an account may see. It changes when one of these plants or a share changes. */
export type PlantsVersion = string

/**
 * Stores plants. A method with the parameter `account` reads only plants that this account may see. The audit trail records
 * changes of shares, with the author `by`. It does not record changes of plants.
 */
export interface PlantStore {
  /**
   * Adds a plant to the account; resolves when the plant is on disk.
   * @param idempotency for 24 hours, a repeated request gets the reply of the first request. Of keys whose plants were removed,
   *   only the newest 10,000 of an account are kept
   * @param limit how many plants the account may have; by default any number
   * @throws ApiError 409 when the id is taken, no id is left to assign, or the first request is still running; 422 when the
   *   idempotency key was used for another request; 429 when the limit is reached; 403 when the account was deleted; 503 or 507
   *   when the database cannot write
   */
  create(account: number, plant: NewPlant, idempotency?: Idempotency, limit?: number): Promise<AddedPlant>
  /**
   * Adds plants to the account, all or none, in their order; resolves when they are on disk.
   * @throws the errors of `create`, and those of `addMany`
   */
  createMany(many: ManyPlants): Promise<ManyAdded>
  /** Checks whether `createMany` would add these plants. @throws the error that it would throw */
  checkMany(many: ManyPlants): Promise<void>
  /**
   * Removes at most `maxRows` idempotency keys and kept replies from before a time in Unix seconds, in one short transaction.
   * @returns how many rows were removed; 0 when the search has found none
   */
  removeExpiredKeys(before: number, maxRows: number): Promise<number>
  /** The key of the cursors of this database, 32 random bytes. The first call makes it; all replicas share it. */
  cursorKey(): Promise<Buffer>
  /**
   * The version of the plants that the account may see. A read that begins after a write was acknowledged gets a new version.
   * Null if only the database knows the version. Null also if plants are shared with the account by tag, because the version of
   * their owner would change with plants that the account may not see.
   */
  version(account: number): PlantsVersion | null
  /**
   * Like `version`, but reads the database if needed. Null for shares by tag, and while a replica of an older release runs: it
   * renews no versions.
   */
  fetchVersion(account: number): Promise<PlantsVersion | null>
  /** The account's own plant with this id, without its details, and its version. */
  find(account: number, id: number): Promise<(StoredPlant & { readonly version: number }) | undefined>
  /** How many own plants the account has. @param enough the count may stop at this number */
  count(account: number, enough?: number): Promise<number>
  /**
   * Runs a script that changes plants of the account, or what replies show of them, together with the writes of other requests, as
   * `Scripts.write`. The version of the account's plants is renewed. The script may run again, so it reads before it writes.
   */
  change<T>(account: number, script: () => Script<T>): Promise<T>
  /**
   * Removes the account's own plant with this id.
   * @param check throws an ApiError if the plant must not be removed in this version
   * @returns whether there was such a plant
   */
  remove(account: number, id: number, check?: (version: number) => void): Promise<boolean>
  /** At most `limit` plants in order. */
  list(account: number, query: PlantQuery, limit: number): Promise<PlantPage>
  /**
   * Reads plants in order, in pages. A caller that stops early must call `return` of the iterator. A store without `endOfPage`
   * reads a snapshot, which moves to the newest state only if SQLite's write-ahead log is large. With `endOfPage`, a plant that
   * exists during the whole read is in the list once. A plant that is added or removed meanwhile may be in the list or not.
   * @param use maps the pages to the output; it may read the pages several times
   * @param limit the highest number of plants; by default all plants
   */
  listLong<T>(
    account: number,
    query: PlantQuery,
    use: (pages: PagesOf) => AsyncIterable<T>,
    limit?: number,
  ): AsyncIterable<T>
  /**
   * The position of the last of `limit` plants, if more plants follow. It takes less time than reading the plants. Only a store
   * whose long lists are no snapshots has this method.
   */
  endOfPage?(account: number, query: PlantQuery, limit: number): Promise<Position | undefined>
  /**
   * Lets another account see the account's plants from now on: all plants, or the plants with a tag.
   * @returns whether the share is new
   * @throws ApiError 400 when both accounts are the same
   */
  share(account: number, grantee: number, tag?: string, by?: Actor): Promise<boolean>
  /** Revokes a share immediately; without a tag, all shares with that account. @returns whether there was such a share */
  unshare(account: number, grantee: number, tag?: string, by?: Actor): Promise<boolean>
  /** All shares, sorted by owner, grantee and tag. */
  shares(): Promise<readonly Share[]>
}

/** A plant to check: a field may also be undefined. */
type GivenPlant = { readonly [Field in keyof NewPlant]: NewPlant[Field] | undefined } & Pick<NewPlant, 'name'>

/**
 * Trims a plant's texts and checks the rules that a JSON type cannot express.
 * @throws ApiError 400 that names the field
 */
export function checkedPlant(plant: GivenPlant): NewPlant {
  const { name, id, tag, species, place, light, acquired, notes, archived } = plant
  return {
    name: checkedText('name', name),
    ...(id === undefined ? {} : { id }),
    ...(tag === undefined ? {} : { tag: checkedText('tag', tag) }),
    ...(species === undefined ? {} : { species: checkedText('species', species) }),
    ...(place === undefined ? {} : { place: checkedText('place', place) }),
    ...(light === undefined ? {} : { light: checkedText('light', light) }),
    ...(acquired === undefined ? {} : { acquired: checkedDay('acquired', acquired) }),
    ...(notes === undefined ? {} : { notes: checkedText('notes', notes, notesRule) }),
    ...(archived === true ? { archived } : {}),
  }
}

/**
 * Trims a name or another text and checks it.
 * @param rule by default the rule for names and tags
 * @throws ApiError 400 that names the field
 */
export function checkedText(field: string, text: string, rule = textRule): string {
  const trimmed = text.trim()
  const problem = nameProblem(trimmed, rule)
  if (problem === undefined) return trimmed
  throw invalidField(field, problem)
}

function checkedDay(field: string, text: string): string {
  if (/^\d{4}-\d{2}-\d{2}$/.test(text) && isCalendarDay(text)) return text
  throw invalidField(field, 'is not a day; write it like 2026-11-28')
}

const textRule: NameRule = {
  longest: 255,
  ifBlank: 'send 1 to 255 characters',
  verb: 'send',
  refused: controlCharacters,
}

const notesRule: NameRule = {
  longest: 10_000,
  ifBlank: 'send 1 to 10,000 characters',
  verb: 'send',
  refused: {
    pattern: /[^\P{Cc}\t\n\r]/u,
    problem: 'has control characters other than line breaks and tabs; leave them out',
  },
}
