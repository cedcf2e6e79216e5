import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { MarkedToken, Token, Tokens } from 'marked'
import { type ComponentChild, h, type VNode } from 'preact'
import { copy } from './copy.ts'

/** Tokens at deeper levels are shown as plain text, because each level needs a stack frame. */
const maxDepth = 12

/** Named entities that models sometimes write. All other entities stay unchanged. */
const entities: ReadonlyMap<string, string> = new Map([
  ...Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' }),
  ...Object.entries({ copy: '©', hellip: '…', ndash: '–', mdash: '—', larr: '←', rarr: '→' }),
])

/** Tokens of Markdown as nodes. HTML tags are shown as text. */
export function nodesOf(tokens: readonly Token[], depth = 0): ComponentChild[] {
  return tokens.map((token) => (depth > maxDepth || !isKnown(token) ? token.raw : nodeOf(token, depth)))
}

/** A text without formatting. */
export function plainNode(text: string): ComponentChild {
  return h('p', { class: 'plain', dir: 'auto' }, text)
}

const known = new Set([
  ...['blockquote', 'br', 'checkbox', 'code', 'codespan', 'def', 'del', 'em', 'escape', 'heading', 'hr', 'html'],
  ...['image', 'link', 'list', 'list_item', 'paragraph', 'space', 'strong', 'table', 'text'],
])

/** Whether a token is one of the built-in tokens of marked. No extensions are used here. */
function isKnown(token: Token): token is MarkedToken {
  return known.has(token.type)
}

function nodeOf(token: MarkedToken, depth: number): ComponentChild {
  switch (token.type) {
    case 'paragraph':
      return h('p', { dir: 'auto' }, nodesOf(token.tokens, depth + 1))
    case 'text':
      return token.tokens ? nodesOf(token.tokens, depth + 1) : withEntities(token.text)
    case 'strong':
    case 'em':
    case 'del':
      return h(token.type, null, nodesOf(token.tokens, depth + 1))
    case 'codespan':
      return h('code', null, token.text)
    case 'code':
      return h(CodeBlock, { text: token.text, language: token.lang ?? '' })
    case 'link':
    case 'image':
      return linkNode(token, depth)
    default:
      return blockNode(token, depth)
  }
}

function blockNode(token: MarkedToken, depth: number): ComponentChild {
  switch (token.type) {
    case 'heading':
      return h(`h${Math.min(token.depth + 2, 6)}`, { dir: 'auto' }, nodesOf(token.tokens, depth + 1))
    case 'blockquote':
      return h('blockquote', { dir: 'auto' }, nodesOf(token.tokens, depth + 1))
    case 'list':
      return listNode(token, depth)
    case 'table':
      return tableNode(token, depth)
    case 'checkbox':
      return token.checked ? '☑ ' : '☐ '
    case 'br':
    case 'hr':
      return h(token.type, null)
    case 'escape':
      return token.text
    case 'html':
      return token.block ? plainNode(token.raw.trimEnd()) : token.raw
    default:
      return null
  }
}

function listNode({ ordered, start, items }: Tokens.List, depth: number): ComponentChild {
  const children = items.map((item) =>
    h('li', { dir: 'auto', class: item.task ? 'task' : undefined }, nodesOf(item.tokens, depth + 1)),
  )
  return ordered && start !== '' ? h('ol', { start }, children) : h('ul', null, children)
}

function tableNode({ header, rows }: Tokens.Table, depth: number): ComponentChild {
  const row = (cells: readonly Tokens.TableCell[]) =>
    h(
      'tr',
      null,
      cells.map(({ header: isHead, align, tokens }) =>
        h(
          isHead ? 'th' : 'td',
          { dir: 'auto', style: align ? { textAlign: align } : undefined },
          nodesOf(tokens, depth + 1),
        ),
      ),
    )
  const table = h('table', null, h('thead', null, row(header)), h('tbody', null, rows.map(row)))
  // The table can have the focus, so that the arrow keys scroll it.
  return h('div', { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Table' }, table)
}

/** A link with http(s). All other links are shown as text. Pictures become links, so that no picture is fetched. */
function linkNode(token: Tokens.Link | Tokens.Image, depth: number): ComponentChild {
  const address = webAddress(token.href)
  if (address === undefined) return token.raw
  const label =
    token.type === 'image' ? `Picture: ${withEntities(token.text) || address}` : nodesOf(token.tokens, depth + 1)
  return h('a', { href: address, target: '_blank', rel: 'noopener noreferrer', dir: 'auto' }, label)
}

function webAddress(href: string): string | undefined {
  if (!URL.canParse(href)) return undefined
  const { protocol, href: address } = new URL(href)
  return protocol === 'https:' || protocol === 'http:' ? address : undefined
}

/** Replaces named entities by their characters. The lexer has already replaced numeric entities. */
function withEntities(text: string): string {
  return text.replaceAll(/&([a-z]+);/gi, (whole, name: string) => entities.get(name) ?? whole)
}

/** A block of code with a button that copies the code. The block can have the focus, so that the arrow keys scroll the code. */
function CodeBlock({ text, language }: { readonly text: string; readonly language: string }): VNode {
  const isCopied = useSignal(false)
  const take = async () => {
    isCopied.value = await copy(text, 'The code')
  }
  return html`
    <div class="panel code-block" dir="ltr">
      <div class="row spread faint code-head"><span>${language}</span><button type="button" class="quiet" onClick=${take}>${isCopied.value ? 'Copied' : 'Copy'}</button></div>
      <pre tabindex="0" role="region" aria-label=${`Code ${language}`}><code>${text}</code></pre>
    </div>
  `
}
