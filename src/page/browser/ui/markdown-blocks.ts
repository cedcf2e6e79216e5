import { Lexer, type Token, type Tokens } from 'marked'
import type { ComponentChild } from 'preact'
import { ownValue } from '../base/own-value.ts'
import { nodesOf, plainNode } from './markdown-nodes.ts'

/** The characters that are lexed in one step. A slow phone can lex this number in a frame. */
const windowLength = 1024
/**
 * Blocks of these types are lexed as a whole if they have at most this many characters, because a cut would be visible. Such
 * blocks have few nodes.
 */
const maxBlockLengths: Readonly<Record<string, number>> = { paragraph: 8192, code: 16_384, table: 1536 }
const maxBlockLength = Math.max(...Object.values(maxBlockLengths))

/** A text with more Markdown characters than a usual text makes the lexer slow, so it is shown as plain text. */
const maxMarks = (length: number) => Math.max(600, 0.3 * length)
const marks = /[*_~[\]`<>\\!|]/g
/**
 * Matches a line with so many nested quotes and lists that the lexer's stack would overflow. The pattern is unambiguous, so it
 * does not backtrack long.
 */
const nested = /^[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*){16}/m

/** Blocks as nodes, and the start of the rest of the text. */
export interface Portion {
  readonly nodes: readonly ComponentChild[]
  readonly end: number
}

/**
 * Reads Markdown block by block. While a text grows, only its last block is read again.
 */
export class MarkdownReader {
  /** If a block was too long for one window, its fence or table head. It is written before the next window. */
  #prefix = ''
  readonly #links: Lexer['tokens']['links'] = {}

  /**
   * Reads the finished blocks of the next window.
   * @param start the end of the last portion
   * @param isWhole whether the text ends here, so that its last block is finished
   * @returns undefined if no block is finished yet
   */
  next(given: string, start: number, isWhole: boolean): Portion | undefined {
    const text = isWhole ? given : wholeLines(given)
    const window = text.slice(start, start + windowLength)
    const tokens = this.#lex(window)
    const longest = ownValue(maxBlockLengths, tokens?.[0]?.type ?? '') ?? windowLength
    const isOneBlock = tokens !== undefined && withoutLastBlock(tokens).length === 0
    if (!isOneBlock || longest <= windowLength || start + windowLength >= text.length) {
      return this.#take(tokens, window, { text, start, isWhole })
    }
    const longer = text.slice(start, start + longest)
    const lexed = this.#lex(longer)
    // The next frames take further blocks of the longer window.
    const [isAll, first] = [(lexed?.length ?? 0) <= 3, lexed?.slice(0, 3)]
    return this.#take(first, longer, { text, start, isWhole: isWhole && isAll })
  }

  /** Takes the finished blocks of a window. */
  #take(
    tokens: readonly Token[] | undefined,
    source: string,
    { text, start, isWhole }: { readonly text: string; readonly start: number; readonly isWhole: boolean },
  ): Portion | undefined {
    if (source === '') return undefined
    const isLast = start + source.length >= text.length
    if (tokens === undefined) {
      return this.#firstOf(source, start) ?? (isLast && !isWhole ? undefined : this.#plain(source, start, isLast))
    }
    if (isLast && isWhole) return { nodes: nodesOf(tokens), end: text.length }
    const finished = withoutLastBlock(tokens)
    const end = start + lengthOf(finished) - this.#prefix.length
    if (finished.length > 0 && end > start) {
      this.#prefix = ''
      return { nodes: nodesOf(finished), end }
    }
    return isLast ? undefined : this.#cut(tokens, source, start)
  }

  /** The blocks from `start` on, finished or not. */
  tail(text: string, start: number): readonly ComponentChild[] {
    const source = text.slice(start, start + maxBlockLength + windowLength)
    const tokens = this.#lex(source)
    return tokens === undefined ? [plainNode(source)] : nodesOf(tokens)
  }

  #lex(source: string): readonly Token[] | undefined {
    if ((source.match(marks)?.length ?? 0) > maxMarks(source.length) || nested.test(source)) return undefined
    try {
      const lexer = new Lexer({ gfm: true, breaks: true })
      Object.assign(lexer.tokens.links, this.#links)
      const tokens = lexer.lex(this.#prefix + source)
      Object.assign(this.#links, tokens.links)
      return tokens
    } catch {
      return undefined
    }
  }

  /**
   * Takes only the text before the first empty line of a window that cannot be lexed, because the cause may be in the text after
   * this line.
   */
  #firstOf(source: string, start: number): Portion | undefined {
    const end = source.indexOf('\n\n') + 2
    if (end < 2 || end >= source.length) return undefined
    const first = source.slice(0, end)
    const tokens = this.#lex(first)
    this.#prefix = ''
    return { nodes: tokens ? nodesOf(tokens) : [plainNode(first.trimEnd())], end: start + end }
  }

  #plain(source: string, start: number, isLast: boolean): Portion {
    const end = isLast ? source.length : placeToCut(source)
    this.#prefix = ''
    return { nodes: [plainNode(source.slice(0, end))], end: start + end }
  }

  /** Takes the part of a block that is in the window. In the next window, the rest is a separate block. */
  #cut(tokens: readonly Token[], source: string, start: number): Portion {
    const [block] = tokens
    if (block?.type === 'list' && isList(block) && block.items.length > 1) {
      const items = block.items.slice(0, -1)
      return { nodes: nodesOf([{ ...block, items }]), end: start + lengthOf(items) }
    }
    const end = placeToCut(source)
    const known = this.#lex(source.slice(0, end)) ?? []
    const nodes = known.length === 0 ? [plainNode(source.slice(0, end))] : nodesOf(known)
    if (this.#prefix === '') this.#prefix = headOf(block, source)
    return { nodes, end: start + end }
  }
}

/** The text without a short unfinished last line. For example, `-` alone has another meaning than `- one`. */
function wholeLines(text: string): string {
  const end = text.lastIndexOf('\n') + 1
  return text.length - end > windowLength ? text : text.slice(0, end)
}

function isList(token: Token): token is Tokens.List {
  return token.type === 'list'
}

function lengthOf(tokens: readonly { readonly raw: string }[]): number {
  return tokens.reduce((sum, { raw }) => sum + raw.length, 0)
}

/** All tokens before the last block, which further text may change. */
function withoutLastBlock(tokens: readonly Token[]): readonly Token[] {
  const last = tokens.findLastIndex(({ type }) => type !== 'space')
  return tokens.slice(0, Math.max(0, last))
}

/** The lines that must be written before the rest of a cut block: the fence of code, or the head of a table. */
function headOf(block: Token | undefined, source: string): string {
  const lines = block?.type === 'table' ? 2 : block?.type === 'code' && /^ {0,3}(?:```|~~~)/.test(source) ? 1 : 0
  return source
    .split('\n', lines)
    .map((line) => `${line}\n`)
    .join('')
}

/** The index at which to cut: after the last line, else after the last word, else at the end. Never inside a surrogate pair. */
function placeToCut(source: string): number {
  for (const mark of ['\n', ' ']) {
    const place = source.lastIndexOf(mark)
    if (place > source.length / 2) return place + 1
  }
  const last = source.charCodeAt(source.length - 1)
  return last >= 0xd800 && last <= 0xdbff ? source.length - 1 : source.length
}
