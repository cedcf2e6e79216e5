import type { Actor } from '../audit/record.ts'
import { invalidField } from '../errors.ts'
import { controlCharacters, type NameRule, nameProblem } from '../text.ts'
import type { NewPlant, Plant } from './schemas.ts'

/** A plant at its place: the account that owns it and its id there. */
export interface StoredPlant extends Plant {
  readonly account: number
  readonly id: number
}

/** What callers see of a plant. @param withId whether its id too, which is for its owner alone */
export function toReply({ id, name, tag }: StoredPlant, withId: boolean): Plant {
  const reply = tag === undefined ? { name } : { name, tag }
  return withId ? { id, ...reply } : reply
}

/** A place in a caller's list: own plants first, then those of other accounts by account, each by id. */
export interface Position {
  readonly account: number
  readonly id: number
}

/** Some plants of a list, in its order. */
export interface PlantPage {
  /** The plants as they go out: the text of a JSON array. */
  readonly json: string
  /** The place of the last one, where more are to come. */
  readonly last?: Position
}

/** Gives the pages of a list from the first one on, the same whenever it is called. */
export type PagesOf = (upTo?: Position) => AsyncIterable<PlantPage>

/** Which of the plants that an account may see are asked for. */
export interface PlantQuery {
  readonly tag?: string
  /** Only plants that come after this place. */
  readonly after?: Position
  /** Only plants up to this place; asked of a store alone whose lists do not show one moment. */
  readonly upTo?: Position | undefined
  /** Whether the account's own plants are shown with their ids. Those of others never are. */
  readonly withIds?: boolean
}

/** What makes a repeated request known as one: the caller's key, and a digest of what it asks for. */
export interface Idempotency {
  readonly key: string
  readonly request: string
}

/** A plant that was added, now or by an earlier request with the same idempotency key. */
export interface AddedPlant {
  readonly plant: StoredPlant
  readonly isReplay: boolean
}

/** That one account lets another one see its plants. */
export interface Share {
  /** The owner's name. */
  readonly from: string
  /** The name of the account that sees them. */
  readonly to: string
  /** Only plants with this tag; null for all of them. */
  readonly tag: string | null
  /** Unix seconds. */
  readonly created: number
}

/** What is known of the plants that an account may see without reading them: another one, once one of them changes. */
export type PlantsVersion = string

/**
 * Keeps plants. Every method takes the account first and sees nothing outside what that account may see. What is shared
 * is put on record, as `by`'s, plants are not.
 */
export interface PlantStore {
  /**
   * Adds a plant to the account; resolves when it is on disk.
   * @param idempotency a repeated request gets the answer of the first one, for 24 hours
   * @param limit how many plants the account may have; as many as it likes without it
   * @throws ApiError 409 when the id is taken, or none is left to assign, or the first request is still running;
   *   422 when the key was used for another request; 429 when the account has as many plants as it may
   */
  create(account: number, plant: NewPlant, idempotency?: Idempotency, limit?: number): Promise<AddedPlant>
  /**
   * Removes idempotency keys that were used before a time in Unix seconds, at most so many, in one short transaction.
   * @returns how many those were: 0 when none is left
   */
  removeExpiredKeys(before: number, maxRows: number): Promise<number>
  /**
   * The version of what the account may see: a read that begins after a write was acknowledged gets a new one. Null where
   * it is not known without asking the database.
   */
  version(account: number): PlantsVersion | null
  /** The same, asked for where need be. Null while others write who do not tell. */
  fetchVersion(account: number): Promise<PlantsVersion | null>
  /** The account's own plant with this id. */
  find(account: number, id: number): Promise<StoredPlant | undefined>
  /** How many plants of its own the account has. @param enough how many are counted at least, where there are as many */
  count(account: number, enough?: number): Promise<number>
  /** Removes the account's own plant; tells whether there was one. */
  remove(account: number, id: number): Promise<boolean>
  /** At most `limit` plants in order. */
  list(account: number, query: PlantQuery, limit: number): Promise<PlantPage>
  /** Whether a list by `listLong` shows one moment, however often its pages are gone through. */
  readonly hasSnapshotLists: boolean
  /**
   * Reads plants in order, in pages. Whoever stops early returns the iterator. Where it does not show one moment, plants that
   * are there all along are in it once, those that come or go meanwhile may be in it or not.
   * @param use makes of the pages what is given; it may go through them several times
   * @param limit how many plants at most; all of them without it
   */
  listLong<T>(
    account: number,
    query: PlantQuery,
    use: (pages: PagesOf) => AsyncIterable<T>,
    limit?: number,
  ): AsyncIterable<T>
  /**
   * Lets another account see the account's plants, all of them or those with a tag, from now on; tells whether it could
   * not before.
   * @throws ApiError 400 when both are the same
   */
  share(account: number, grantee: number, tag?: string, by?: Actor): Promise<boolean>
  /** Takes back what `share` gave, without a tag all of it, at once; tells whether there was anything. */
  unshare(account: number, grantee: number, tag?: string, by?: Actor): Promise<boolean>
  /** All that is shared, by owner, grantee and tag. */
  shares(): Promise<readonly Share[]>
}

/**
 * Trims a plant's texts and checks what a JSON type cannot say.
 * @throws ApiError 400 that names the field
 */
export function checkedPlant(plant: NewPlant): NewPlant {
  return {
    name: checkedText('name', plant.name),
    ...(plant.id === undefined ? {} : { id: plant.id }),
    ...(plant.tag === undefined ? {} : { tag: checkedText('tag', plant.tag) }),
  }
}

/**
 * Trims a name or a tag and checks it.
 * @throws ApiError 400 that names the field
 */
export function checkedText(field: string, text: string): string {
  const trimmed = text.trim()
  const problem = nameProblem(trimmed, textRule)
  if (problem === undefined) return trimmed
  throw invalidField(field, problem)
}

/** The rule for a plant's name, and for its tag. */
const textRule: NameRule = {
  longest: 255,
  ifBlank: 'send 1 to 255 characters',
  verb: 'send',
  refused: controlCharacters,
}
