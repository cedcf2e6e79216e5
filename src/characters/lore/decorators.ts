import { spend } from '../../work/fuel.ts'

/** The places that the decorator `@@position` names. */
export type DecoratedPosition = 'before_desc' | 'after_desc' | 'personality' | 'scenario'

export type Role = 'system' | 'user' | 'assistant'

/** The values of a lorebook entry's decorators (Character Card V3, "decorators"). */
export interface Decorators {
  readonly activate?: true
  readonly dontActivate?: true
  readonly onlyAfter?: number
  readonly onlyEvery?: number
  readonly keepAfterMatch?: true
  readonly dontAfterMatch?: true
  readonly depth?: number
  readonly reverseDepth?: number
  readonly role?: Role
  readonly scanDepth?: number
  readonly greeting?: number
  readonly position?: DecoratedPosition
  readonly ignoreOnMaxContext?: true
  /** Lists of keys as they are written (`itemsIn`). At least one key of each list must occur. */
  readonly additionalKeys?: readonly string[]
  /** Lists of keys of which no key may occur. */
  readonly excludeKeys?: readonly string[]
  readonly disables?: readonly ('system_prompt' | 'post_history_instructions')[]
  readonly priority?: number
  readonly probability?: number
  readonly wholeWords?: boolean
}

/** The facts of a request that decide which decorators apply. */
export interface DecoratorContext {
  readonly hasPersonality: boolean
  readonly hasScenario: boolean
  /** Whether the active greeting is known. */
  readonly knowsGreeting: boolean
}

/** A decorator and its fallbacks (`@@@`). The first of them that applies counts. */
type Chain = readonly { readonly name: string; readonly value: string }[]

/** The content of an entry, split into decorators and body. */
export interface Decorated {
  readonly body: string
  readonly chains: readonly Chain[]
  /** Whether there are more lines with decorators than `maxLines`, or a longer one than `maxLineLength`. */
  readonly isCut: boolean
}

/** The most lines with decorators that are read in one entry. Real entries have a few. */
const maxLines = 50
/** The most characters of a line with a decorator. A longer line is removed from the body, and is not read. */
const maxLineLength = 100_000

/** Units of work to read a line, besides its characters. */
const unitsOfLine = 10

/**
 * Splits the leading lines that begin with `@@` from the body. A later `@@` belongs to the body.
 * @param content without control characters
 */
export function splitDecorators(content: string): Decorated {
  const text = content.trim()
  if (!text.startsWith('@@')) return { body: text, chains: [], isCut: false }
  const chains: { name: string; value: string }[][] = []
  let start = 0
  let lines = 0
  let isCut = false
  while (isDecorator(text, start)) {
    const next = text.indexOf('\n', start)
    const end = next === -1 ? text.length : next
    isCut ||= lines === maxLines || end - start > maxLineLength
    if (lines < maxLines && end - start <= maxLineLength) {
      readLine(text.slice(start, end), chains)
    }
    spend(unitsOfLine + end - start)
    lines += 1
    start = end + 1
  }
  return { body: text.slice(start).trim(), chains, isCut }
}

/** Whether the line at `start` begins with `@@`, after at most 1,000 characters of white space. */
export function isDecorator(text: string, start: number): boolean {
  leading.lastIndex = start
  return leading.test(text)
}

const leading = /[^\S\n]{0,1000}@@/y

/** Reads a line with a decorator. A fallback without a decorator above it is ignored. */
function readLine(line: string, chains: { name: string; value: string }[][]): void {
  const text = line.trimStart()
  const at = text.startsWith('@@@') ? '@@@' : '@@'
  const rest = text.slice(at.length)
  const blank = rest.search(/\s/)
  const [name, value] = blank === -1 ? [rest, ''] : [rest.slice(0, blank), rest.slice(blank)]
  const decorator = { name: name.toLowerCase(), value: value.trim() }
  if (at === '@@') chains.push([decorator])
  else chains.at(-1)?.push(decorator)
}

/**
 * Reads the decorators that apply in a context. If a decorator is unknown, malformed or does not apply, its fallbacks are tried.
 * @param onIgnored called with the name of each decorator or fallback that was ignored
 */
export function readDecorators(
  chains: readonly Chain[],
  context: DecoratorContext,
  onIgnored: (name: string) => void = () => {},
): Decorators {
  let decorators: Decorators = {}
  for (const chain of chains) {
    for (const { name, value } of chain) {
      const isReadable = value.length <= maxValueLength || keyLists.has(name)
      const read = isReadable ? catalogue.get(name)?.(value, context, decorators) : undefined
      if (read) {
        // Of several values, the first counts. But a decorator in `gathering` gives a list of all values so far, so its newest
        // list replaces the older list.
        decorators = gathering.has(name) ? { ...decorators, ...read } : { ...read, ...decorators }
        break
      }
      onIgnored(name)
    }
  }
  return decorators
}

type Reader = (value: string, context: DecoratorContext, soFar: Decorators) => Decorators | undefined

const numeric = (make: (number: number) => Decorators, minimum = 0): Reader => {
  return (value) => {
    const number = value === '' ? Number.NaN : Number(value)
    return Number.isFinite(number) && number >= minimum ? make(number) : undefined
  }
}
/** The most items of a list that are read. */
const maxParts = 1000
/** The items of a decorator's value: trimmed, and without blank items. */
export const itemsIn = (value: string): readonly string[] =>
  value
    .split(',', maxParts)
    .map((item) => item.trim())
    .filter((item) => item !== '')

/** The most characters of a value that is not a list of keys. No valid value is as long. */
const maxValueLength = 40
const keyLists: ReadonlySet<string> = new Set(['additional_keys', 'exclude_keys'])
const gathering: ReadonlySet<string> = new Set([...keyLists, 'disable_ui_prompt'])
/** Whether a list of keys has an item that is not blank. */
const hasItems = (value: string) => /[^,\s]/.test(value)

/*
 * The decorators that the service supports. Chat messages have no icons and no instruct template, so four decorators of V3 are
 * missing: `is_user_icon`, `instruct_depth`, `reverse_instruct_depth` and `instruct_scan_depth`. Their fallbacks are tried.
 * `end`, `priority`, `probability`, `match_full_word` and `match_partial_word` come from RisuAI.
 */
const catalogue: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ['activate', () => ({ activate: true })],
  ['dont_activate', () => ({ dontActivate: true })],
  ['activate_only_after', numeric((onlyAfter) => ({ onlyAfter }))],
  ['activate_only_every', numeric((onlyEvery) => ({ onlyEvery }), Number.MIN_VALUE)],
  ['keep_activate_after_match', () => ({ keepAfterMatch: true })],
  ['dont_activate_after_match', () => ({ dontAfterMatch: true })],
  ['depth', numeric((depth) => ({ depth: Math.floor(depth) }), Number.NEGATIVE_INFINITY)],
  ['end', () => ({ depth: 0 })],
  ['reverse_depth', numeric((depth) => ({ reverseDepth: Math.floor(depth) }), Number.NEGATIVE_INFINITY)],
  ['role', (value) => roleOf(value)],
  ['scan_depth', numeric((scanDepth) => ({ scanDepth: Math.floor(scanDepth) }))],
  [
    'is_greeting',
    (value, { knowsGreeting }) =>
      knowsGreeting ? numeric((greeting) => ({ greeting }))(value, anyContext, {}) : undefined,
  ],
  ['position', positionOf],
  ['ignore_on_max_context', () => ({ ignoreOnMaxContext: true })],
  [
    'additional_keys',
    (value, _context, { additionalKeys = [] }) =>
      hasItems(value) ? { additionalKeys: [...additionalKeys, value] } : undefined,
  ],
  [
    'exclude_keys',
    (value, _context, { excludeKeys = [] }) => (hasItems(value) ? { excludeKeys: [...excludeKeys, value] } : undefined),
  ],
  [
    'disable_ui_prompt',
    (value, _context, { disables = [] }) => {
      if (value !== 'system_prompt' && value !== 'post_history_instructions') return undefined
      return { disables: [...disables, value] }
    },
  ],
  ['priority', numeric((priority) => ({ priority }), Number.NEGATIVE_INFINITY)],
  ['probability', numeric((probability) => ({ probability }))],
  ['match_full_word', () => ({ wholeWords: true })],
  ['match_partial_word', () => ({ wholeWords: false })],
])

/** A context in which every known decorator applies. */
export const anyContext: DecoratorContext = { hasPersonality: true, hasScenario: true, knowsGreeting: true }

function roleOf(value: string): Decorators | undefined {
  const role = value.toLowerCase()
  return role === 'system' || role === 'user' || role === 'assistant' ? { role } : undefined
}

function positionOf(value: string, { hasPersonality, hasScenario }: DecoratorContext): Decorators | undefined {
  const position = value.toLowerCase()
  if (position === 'before_desc' || position === 'after_desc') return { position }
  if (position === 'personality') return hasPersonality ? { position } : undefined
  if (position === 'scenario') return hasScenario ? { position } : undefined
  return undefined
}
