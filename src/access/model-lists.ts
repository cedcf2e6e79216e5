import { controlCharacters, type NameRule, nameProblem } from '../text.ts'

/** The models that may be used: ids as requests name them, and `b/*` for every id that begins with `b/`. */
export type ModelList = readonly string[]

/** An account or a key as far as its own list goes; null for all models. */
export interface ModelListOwner {
  readonly models: ModelList | null
}

/** A key as far as models go: its own list holds, and its account's. */
export interface ModelUser extends ModelListOwner {
  readonly account: ModelListOwner
}

/** How many entries a list may have. */
export const mostModelEntries = 100

const entryRule: NameRule = {
  longest: 255,
  ifBlank: 'give it 1 to 255 characters',
  verb: 'give',
  refused: controlCharacters,
}

/** What keeps some entries from being a list of models, as the end of a sentence; undefined where nothing does. */
export function modelListProblem(entries: ModelList): string | undefined {
  if (entries.length === 0) return 'names no model; name one or more, or "*" for all'
  if (entries.length > mostModelEntries) {
    return `has more than ${mostModelEntries} entries; shorten it, as by "local/*" for all ids that begin with local/`
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

/** The list that entries without a problem make, each once; null for all models, where one of them is `*`. */
export function modelListOf(entries: ModelList): ModelList | null {
  const list = [...new Set(entries.map((entry) => entry.trim()))]
  return list.includes('*') ? null : list
}

/**
 * Whether a model may be used: both lists must allow it.
 * @param names all ids that stand for it; a list that has one of them allows it
 */
export function mayUseModel(user: ModelUser, names: readonly string[]): boolean {
  return [user.models, user.account.models].every(
    (list) => list === null || names.some((name) => isCovered(name, list)),
  )
}

/** What may be used of the ids that a prefix in `models.json` takes: the entries that are narrower than it. */
export function usablePartsOf(prefix: string, user: ModelUser): ModelList {
  const entries = [...(user.models ?? []), ...(user.account.models ?? [])]
  return [...new Set(entries)].filter((entry) => covers(prefix, entry) && mayUseModel(user, [entry]))
}

/** Whether a wanted list, null for all models, allows anything that the list of the key's maker does not. */
export function modelsExceed(maker: ModelListOwner, wanted: ModelList | null): boolean {
  const { models } = maker
  return models !== null && (wanted === null || !wanted.every((entry) => isCovered(entry, models)))
}

function isCovered(name: string, list: ModelList): boolean {
  return list.some((entry) => covers(entry, name))
}

/** Whether an entry allows an id, or all that another entry allows. */
function covers(entry: string, other: string): boolean {
  if (!entry.endsWith('*')) return entry === other
  return other.startsWith(entry.slice(0, -1)) && other.length >= entry.length
}

/** Reads a list as the database keeps it: JSON that we wrote ourselves. */
export function storedModels(json: string | null): ModelList | null {
  const parsed: unknown = json ? JSON.parse(json) : null
  return Array.isArray(parsed) ? parsed.filter((entry) => typeof entry === 'string') : null
}

/** A list as the database keeps it. */
export function modelsToStore(models: ModelList | null): string | null {
  return models === null ? null : JSON.stringify(models)
}
