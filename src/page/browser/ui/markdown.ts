import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentChild, VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { MarkdownReader } from './markdown-blocks.ts'
import { plainNode } from './markdown-nodes.ts'

/** Milliseconds of a frame that all texts of the page together may take. The remaining text waits for the next frame. */
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

/** A section ends after so many characters. The browser lays out a section when the section comes into sight. */
const sectionLength = 2000

/** The state of reading a text. The nodes of finished blocks never change, so that new text does not render them again. */
class Progress {
  source = ''
  #isWhole = false
  /** The index at which the unfinished rest begins. */
  end = 0
  readonly sections: VNode[] = []
  readonly reader = new MarkdownReader()
  #open: ComponentChild[] = []
  #openStart = 0

  /** Whether the text begins with the text that was read, so that reading can continue. */
  isOf(text: string): boolean {
    return text.startsWith(this.source) && (!this.#isWhole || text.length === this.source.length)
  }

  /** Reads while the frame has time. @returns whether all finished blocks are read */
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

  /** The last section, with the unfinished blocks. */
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

/** The characters of the unread rest that are shown as plain text for now. */
const shownUnread = 1000

function tailOf({ end, reader }: Progress, text: string, isDone: boolean): readonly ComponentChild[] {
  if (end >= text.length) return []
  return isDone ? reader.tail(text, end) : [plainNode(text.slice(end, end + shownUnread))]
}

/**
 * Markdown as nodes: no HTML, only http(s) links, and pictures as links. A long text is read over several frames. When a growing
 * text changes, only its last block is read again.
 */
export function Markdown({
  text: given,
  isGrowing = false,
}: {
  readonly text: string
  readonly isGrowing?: boolean
}): VNode {
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
  // Subscribes to the signal, so that each frame renders the component until the text is done.
  void frames.value
  const tail = tailOf(current, text, isDone)
  return html`<div class="markdown">${[...current.sections, current.openSection(tail)]}</div>`
}
