import type { Steps } from '../../work.ts'
import type { Pair } from './braces.ts'
import { separatorsIn } from './separators.ts'

/** What a condition decides on: from `{{if …}}` to `{{else}}`, and from there to `{{/if}}`; or a comment, `{{//}}…{{///}}`. */
export interface Block {
  readonly isComment: boolean
  readonly otherwise: Pair | undefined
  readonly end: Pair
}

/** What in one text has a beginning and an end: its conditions and its comments. */
export interface Conditions {
  /** By where their `{{if …}}` or `{{//}}` opens; one without its end is in none. */
  readonly blocks: ReadonlyMap<number, Block>
  /** The `{{else}}` in `{{if::condition::content}}`, by where that closes. */
  readonly inner: ReadonlyMap<number, Pair>
}

const anyCondition = /\{\{\s*(?:#?if[\s:]|\/\/\s*\}\})/i
const opening = /\s*(?:#?(if)(?=[\s:])\s*:{0,2}|(else|\/if|\/\/\/?)\s*(?=\}\}))/iy
/** What counts as false, beside an empty text. */
const falsy: ReadonlySet<string> = new Set(['', 'false', 'off', '0'])

const unitsOfPair = 20
const pairsOfStep = 50
const none: Conditions = { blocks: new Map(), inner: new Map() }

/** Finds the conditions and comments of a text, in time in proportion to it. @param pairs its braces, by where they open */
export function* conditionsIn(text: string, pairs: readonly Pair[]): Steps<Conditions> {
  if (!anyCondition.test(text)) return none
  const reader = new Reader()
  for (const [index, pair] of pairs.entries()) {
    if (index % pairsOfStep === 0) yield pairsOfStep * unitsOfPair
    opening.lastIndex = pair.open + 2
    const match = opening.exec(text)
    const start = opening.lastIndex
    const isIf = match?.[1] !== undefined && start <= pair.close
    // One with its content inside has no `{{/if}}`.
    const isWhole = isIf && (yield* separatorsIn(text, pairs, start, pair.close)).colons.length > 0
    reader.read(pair, isWhole ? undefined : isIf ? 'if' : match?.[2]?.toLowerCase())
  }
  return reader
}

/** What is open at one level of nesting. */
interface Level {
  /** The pair around it. */
  readonly around: Pair | undefined
  readonly begun: { readonly pair: Pair; otherwise?: Pair }[]
  /** Comments that are open, and how many conditions are around each. */
  readonly commented: { readonly pair: Pair; readonly conditions: number }[]
}

class Reader implements Conditions {
  readonly blocks = new Map<number, Block>()
  readonly inner = new Map<number, Pair>()
  readonly #levels: Level[] = []
  #level = levelIn(undefined)

  read(pair: Pair, kind: string | undefined): void {
    while (this.#level.around && this.#level.around.close < pair.open) {
      this.#level = this.#levels.pop() ?? levelIn(undefined)
    }
    const { begun, commented } = this.#level
    if (kind === 'if') begun.push({ pair })
    else if (kind === '//') commented.push({ pair, conditions: begun.length })
    else if (kind === '///') this.#endComment(pair)
    else if (kind === 'else') this.#divide(pair)
    else if (kind === '/if') this.#end(pair)
    this.#levels.push(this.#level)
    this.#level = levelIn(pair)
  }

  /** The first `{{else}}` counts. */
  #divide(pair: Pair): void {
    const { around, begun } = this.#level
    const last = begun.at(-1)
    if (last) last.otherwise ??= pair
    else if (around && !this.inner.has(around.close)) this.inner.set(around.close, pair)
  }

  #end(end: Pair): void {
    const begun = this.#level.begun.pop()
    if (begun) this.blocks.set(begun.pair.open, { isComment: false, otherwise: begun.otherwise, end })
  }

  /** A condition that begins in a comment ends with it. */
  #endComment(end: Pair): void {
    const { begun, commented } = this.#level
    const comment = commented.pop()
    if (!comment) return
    this.blocks.set(comment.pair.open, { isComment: true, otherwise: undefined, end })
    begun.splice(comment.conditions)
  }
}

function levelIn(around: Pair | undefined): Level {
  return { around, begun: [], commented: [] }
}

/** Whether a condition holds that has come to this text. */
export function isTrue(value: string): boolean {
  return !falsy.has(value.trim().toLowerCase())
}

/** A text without blanks around it, and without as many blanks before each line as its first line has. */
export function withoutIndent(text: string): string {
  const indent = /^[ \t]*(?=[^\s])/m.exec(text)?.[0].length ?? 0
  if (indent === 0) return text.trim()
  const lines = text.split('\n').map((line) => line.slice(Math.min(indent, /^[ \t]*/.exec(line)?.[0].length ?? 0)))
  return lines.join('\n').trim()
}
