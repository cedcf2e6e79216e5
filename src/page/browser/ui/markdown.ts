import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentChild, VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { MarkdownReader } from './markdown-blocks.ts'
import { plainNode } from './markdown-nodes.ts'

/** What a Markdown text shows. */
export interface MarkdownProps {
  readonly text: string
  /** Whether more of the text is on its way. */
  readonly isGrowing?: boolean
}

/** Milliseconds of a frame that all texts of the page may take together; the rest of them waits for the next frame. */
const frameBudgetMs = 2
let budgetEnd = 0

/** Whether there is time left in this frame. */
function hasTime(): boolean {
  const now = performance.now()
  if (budgetEnd === 0) {
    budgetEnd = now + frameBudgetMs
    requestAnimationFrame(() => {
      budgetEnd = 0
    })
  }
  return now < budgetEnd
}

/** Characters of a section. What is out of sight is laid out section by section, when it comes into sight. */
const sectionLength = 2000

/** What is known of a text: its finished blocks are nodes that never change, and cost nothing when more text comes. */
class Progress {
  source = ''
  #isWhole = false
  /** Where the text begins that is not finished. */
  end = 0
  readonly sections: VNode[] = []
  readonly reader = new MarkdownReader()
  #open: ComponentChild[] = []
  #openStart = 0

  /** Whether this is the beginning of the text, so that reading goes on where it was. */
  isOf(text: string): boolean {
    return text.startsWith(this.source) && (!this.#isWhole || text.length === this.source.length)
  }

  /** Reads on as long as there is time. @returns whether all is read that can be */
  read(text: string, isWhole: boolean): boolean {
    this.source = text
    this.#isWhole = isWhole
    while (this.end < text.length) {
      if (!hasTime()) return false
      const portion = this.reader.next(text, this.end, isWhole)
      if (!portion) return true
      this.#open.push(...portion.nodes)
      this.end = portion.end
      if (this.end - this.#openStart >= sectionLength) this.#closeSection()
    }
    return true
  }

  /** The last section, with blocks that are not finished. */
  openSection(tail: readonly ComponentChild[]): VNode {
    return sectionOf(this.sections.length, [...this.#open, ...tail])
  }

  #closeSection(): void {
    this.sections.push(sectionOf(this.sections.length, this.#open))
    this.#open = []
    this.#openStart = this.end
  }
}

function sectionOf(position: number, children: readonly ComponentChild[]): VNode {
  return html`<div key=${position} class="section">${[...children]}</div>`
}

/** Characters of what is not read yet that are shown meanwhile. */
const shownUnread = 1000

function tailOf({ end, reader }: Progress, text: string, isDone: boolean): readonly ComponentChild[] {
  if (end >= text.length) return []
  return isDone ? reader.tail(text, end) : [plainNode(text.slice(end, end + shownUnread))]
}

/**
 * Markdown as nodes: no HTML, links to the web alone, pictures as links. A long text is read over several frames, and a
 * growing one from its last block on.
 */
export function Markdown({ text: given, isGrowing = false }: MarkdownProps): VNode {
  const progress = useRef(new Progress())
  const frames = useSignal(0)
  const text = given.includes('\r') ? given.replaceAll(/\r\n?/g, '\n') : given
  if (!progress.current.isOf(text)) progress.current = new Progress()
  const { current } = progress
  const isDone = current.read(text, !isGrowing)
  useEffect(() => {
    if (isDone) return
    const frame = requestAnimationFrame(() => frames.value++)
    return () => cancelAnimationFrame(frame)
  })
  // Read here, so that each frame renders the text again until it is done.
  void frames.value
  const tail = tailOf(current, text, isDone)
  return html`<div class="markdown">${[...current.sections, current.openSection(tail)]}</div>`
}
