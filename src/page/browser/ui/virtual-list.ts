import { type Signal, useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { RefObject, VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

interface VirtualListProps<T> {
  readonly items: readonly T[]
  readonly keyOf: (item: T) => string | number
  /** In pixels. */
  readonly rowHeight: number
  /** The minimum width of an item in pixels. A row has as many items as fit. By default a row has one item. */
  readonly columnWidth?: number
  readonly row: (item: T, index: number) => VNode
  readonly label: string
  /** Called when the end comes into sight, to load more. */
  readonly onEnd?: () => void
  readonly class?: string
}

/**
 * A list with only the visible rows in the document. So a hundred thousand items are as fast as thirty items. The list is a
 * scrolling element, so its CSS class must set a height.
 */
export function VirtualList<T>(props: VirtualListProps<T>): VNode {
  const { items, keyOf, rowHeight, columnWidth, row, label, onEnd } = props
  const sight = useRowWindow()
  const { size } = sight
  const columns = columnWidth ? Math.max(1, Math.floor(size.value.width / columnWidth)) : 1
  const rows = Math.ceil(items.length / columns)
  const { first, last } = rowsInSight(sight, rows, rowHeight)
  useEffect(() => {
    if (size.value.height > 0 && last >= rows) onEnd?.()
  }, [last, rows, size.value.height])

  const shown = items.slice(first * columns, last * columns)
  const inner = { height: `${rows * rowHeight}px` }
  const window = {
    transform: `translateY(${first * rowHeight}px)`,
    gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
    gridAutoRows: `${rowHeight}px`,
  }
  return html`
    <div class=${`virtual-list ${props.class ?? ''}`} ref=${sight.scroller} tabindex="0" role="list" aria-label=${label}
      onScroll=${sight.onScroll}>
      <div role="presentation" style=${inner}>
        <div role="presentation" class="window" style=${window}>
          ${shown.map((item, index) => {
            const position = first * columns + index
            return html`<div key=${keyOf(item)} role="listitem" aria-setsize=${items.length} aria-posinset=${position + 1}>${row(item, position)}</div>`
          })}
        </div>
      </div>
    </div>
  `
}

/** The visible part of a list. */
export interface RowWindow {
  /** The scrolling element. */
  readonly scroller: RefObject<HTMLDivElement | null>
  /** The size of this element in pixels. It is 0 before the element is laid out. */
  readonly size: Signal<{ readonly width: number; readonly height: number }>
  /** The scroll position in pixels. */
  readonly top: Signal<number>
  readonly onScroll: () => void
}

/** The number of rendered rows above and below the visible rows, for quick scrolling. */
const spareRows = 4

/** Watches the visible part of a scrolling element. */
export function useRowWindow(): RowWindow {
  const scroller = useRef<HTMLDivElement>(null)
  const top = useSignal(0)
  const size = useSignal({ width: 0, height: 0 })
  useEffect(() => {
    const { current } = scroller
    if (!current) return
    const observer = new ResizeObserver(() => {
      size.value = { width: current.clientWidth, height: current.clientHeight }
    })
    observer.observe(current)
    return () => observer.disconnect()
  }, [])
  const onScroll = () => {
    top.value = scroller.current?.scrollTop ?? 0
  }
  return { scroller, size, top, onScroll }
}

/** The index of the first rendered row, and the index after the last rendered row. @param rowHeight in pixels */
export function rowsInSight(
  { top, size }: RowWindow,
  rows: number,
  rowHeight: number,
): { first: number; last: number } {
  const inSight = Math.ceil(size.value.height / rowHeight) + 1
  // When a list becomes shorter, `top` may be outdated, because the browser may not have sent an event yet.
  const topmost = Math.max(0, Math.min(Math.floor(top.value / rowHeight), rows - inSight))
  return { first: Math.max(0, topmost - spareRows), last: Math.min(rows, topmost + inSight + spareRows) }
}
