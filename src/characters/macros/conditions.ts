import { spend } from '../../work/fuel.ts'
import type { Pair } from './braces.ts'
import { separatorsIn } from './separators.ts'

/** A block: a condition from `{{if …}}` to `{{/if}}` with its `{{else}}`, or a comment from `{{//}}` to `{{///}}`. */
export interface Block {
  readonly isComment: boolean
  readonly otherwise: Pair | undefined
  readonly end: Pair
}

/** The conditions and comments of one text. */
export interface Conditions {
  /** Blocks by the index of their `{{if …}}` or `{{//}}`. Without its end, a condition or comment is not a block. */
  readonly blocks: ReadonlyMap<number, Block>
  /** The `{{else}}` of each `{{if::condition::content}}`, by the index of the `}}` that closes the condition. */
  readonly inner: ReadonlyMap<number, Pair>
}

const anyCondition = /\{\{\s*(?:#?if[\s:]|\/\/\s*\}\})/i
const opening = /\s{0,1000}(?:#?(if)(?=[\s:])\s{0,1000}:{0,2}|(else|\/if|\/\/\/?)\s{0,1000}(?=\}\}))/iy
/** The values that count as false. */
const falsy: ReadonlySet<string> = new Set(['', 'false', 'off', '0'])

const unitsOfPair = 20
const none: Conditions = { blocks: new Map(), inner: new Map() }

/**
 * Finds the conditions and comments of a text, in linear time.
 * @param pairs the pairs of braces, in the order of their openings
 */
export function conditionsIn(text: string, pairs: readonly Pair[]): Conditions {
  if (!anyCondition.test(text)) return none
  const reader = new BlockReader()
  for (const pair of pairs) {
    spend(unitsOfPair)
    opening.lastIndex = pair.open + 2
    const match = opening.exec(text)
    const start = opening.lastIndex
    const isIf = match?.[1] !== undefined && start <= pair.close
    // A condition with its content inside, `{{if::condition::content}}`, has no `{{/if}}`.
    const isWhole = isIf && separatorsIn(text, pairs, start, pair.close).colons.length > 0
    reader.read(pair, isWhole ? undefined : isIf ? 'if' : match?.[2]?.toLowerCase())
  }
  return reader
}

/** The open blocks at one level of nested macros. */
interface Level {
  /** The pair of braces around this level. */
  readonly around: Pair | undefined
  readonly begun: { readonly pair: Pair; otherwise?: Pair }[]
  /** Open comments, and the number of conditions that were open when each of them began. */
  readonly commented: { readonly pair: Pair; readonly conditions: number }[]
}

class BlockReader implements Conditions {
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

  /** Reads an `{{else}}`. Only the first `{{else}}` of a condition counts. */
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

  /** Ends a comment. Conditions that began inside it and are still open never become blocks. */
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

/** Whether the expanded text of a condition counts as true. */
export function isTrue(value: string): boolean {
  return !falsy.has(value.trim().toLowerCase())
}

/** The most characters of an indentation that is removed. */
const maxIndent = 1000

/** Trims a text, and removes the indentation of its first line that is not blank from every line. */
export function withoutIndent(text: string): string {
  const trimmed = text.trim()
  const indent = indentOf(text, text.length - text.trimStart().length)
  spend(2 * text.length)
  if (indent === 0 || trimmed === '') return trimmed
  // The first line has lost its indentation already.
  return trimmed.replace(new RegExp(`\\n[ \\t]{1,${indent}}`, 'g'), '\n')
}

/** The number of blanks and tabs in a line before its first other character, which is at this index. */
function indentOf(text: string, index: number): number {
  const before = text.slice(Math.max(0, index - maxIndent), index)
  return /(?<![ \t])[ \t]*$/.exec(before.slice(before.lastIndexOf('\n') + 1))?.[0].length ?? 0
}
