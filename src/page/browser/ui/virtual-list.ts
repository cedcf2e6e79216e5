import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { rowsInSight, useRowWindow } from './row-window.ts'

/** A list of rows of the same height. */
export interface VirtualListProps<T> {
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
