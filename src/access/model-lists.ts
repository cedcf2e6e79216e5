import { controlCharacters, type NameRule, nameProblem } from '../text.ts'

/** The models that may be used: ids as in requests, and `b/*` for every id that begins with `b/`. */
export type ModelList = readonly string[]

/** An account or a key with its list of models; null for all models. */
export interface ModelListOwner {
  readonly models: ModelList | null
}

/** A key with its list of models and the list of its account. Both lists apply. */
export interface ModelUser extends ModelListOwner {
  readonly account: ModelListOwner
}

export const maxModelEntries = 100

const entryRule: NameRule = {
  longest: 255,
  ifBlank: 'give it 1 to 255 characters',
  verb: 'give',
  refused: controlCharacters,
}

/** Why a list of models is not valid, as the end of a sentence; undefined for a valid list. */
export function modelListProblem(entries: ModelList): string | undefined {
  if (entries.length === 0) return 'names no model; name one or more, or "*" for all'
  if (entries.length > maxModelEntries) {
    return `has more than ${maxModelEntries} entries; shorten it, as by "local/*" for all ids that begin with local/`
  }
  for (const entry of entries) {
    const problem = nameProblem(entry, entryRule)
    if (problem !== undefined) return `has an entry that ${problem}`
    if (!/^([^*]+|[^*]+\/\*|\*)$/.test(entry.trim())) {
      return `has the entry ${JSON.stringify(entry)}; a * stands alone, or at the end after a slash, as in "local/*"`
    }
  }
  return undefined
}

/** The list of valid entries, each once; null for all models when one entry is `*`. */
export function modelListOf(entries: ModelList): ModelList | null {
  const list = [...new Set(entries.map((entry) => entry.trim()))]
  return list.includes('*') ? null : list
}

/**
 * Whether both lists allow a model.
 * @param names all ids of the model; a list that allows one of these ids allows the model
 */
export function mayUseModel(user: ModelUser, names: readonly string[]): boolean {
  return [user.models, user.account.models].every(
    (list) => list === null || names.some((name) => isCovered(name, list)),
  )
}

/** Whether a list restricts the models of a key. */
export function hasModelList(user: ModelUser): boolean {
  return user.models !== null || user.account.models !== null
}

/** The entries of both lists that a prefix of `models.json`, such as `local/*`, covers, and that both lists allow. */
export function usablePartsOf(prefix: string, user: ModelUser): ModelList {
  const entries = [...(user.models ?? []), ...(user.account.models ?? [])]
  return [...new Set(entries)].filter((entry) => covers(prefix, entry) && mayUseModel(user, [entry]))
}

/**
 * Whether the list of another key (null for all models) allows a model that the list of the acting key does not allow. The
 * acting key makes, rotates or revokes the other key.
 */
export function modelsExceed(maker: ModelListOwner, requested: ModelList | null): boolean {
  const { models } = maker
  return models !== null && (requested === null || !requested.every((entry) => isCovered(entry, models)))
}

function isCovered(name: string, list: ModelList): boolean {
  return list.some((entry) => covers(entry, name))
}

/** Whether an entry allows an id, or everything that another entry allows. */
function covers(entry: string, other: string): boolean {
  if (!entry.endsWith('*')) return entry === other
  return other.startsWith(entry.slice(0, -1)) && other.length >= entry.length
}

/** Parses a list from the database: JSON that this service has written. */
export function storedModels(json: string | null): ModelList | null {
  const parsed: unknown = json ? JSON.parse(json) : null
  return Array.isArray(parsed) ? parsed.filter((entry) => typeof entry === 'string') : null
}

/** A list as JSON for the database. */
export function modelsToStore(models: ModelList | null): string | null {
  return models === null ? null : JSON.stringify(models)
}
