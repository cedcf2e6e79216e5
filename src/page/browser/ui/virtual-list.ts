import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** What a list of equally high rows shows. */
export interface VirtualListProps<T> {
  readonly items: readonly T[]
  readonly keyOf: (item: T) => string | number
  /** Pixels. */
  readonly rowHeight: number
  /** Pixels that an item needs at least; as many as fit stand side by side. One without it. */
  readonly columnWidth?: number
  readonly row: (item: T, index: number) => VNode
  readonly label: string
  /** Called when the end comes into sight: the place to ask for more. */
  readonly onEnd?: () => void
  readonly class?: string
}

/** Rows above and below those in sight that are there already, for quick scrolling. */
const spareRows = 4

/**
 * A list that has only the rows in sight in the document, so that a hundred thousand items cost as much as thirty. It scrolls
 * by itself: give its class a height.
 */
export function VirtualList<T>(props: VirtualListProps<T>): VNode {
  const { items, keyOf, rowHeight, columnWidth, row, label, onEnd } = props
  const list = useRef<HTMLDivElement>(null)
  const top = useSignal(0)
  const size = useSignal({ width: 0, height: 0 })
  useEffect(() => {
    const { current } = list
    if (!current) return
    const observer = new ResizeObserver(() => {
      size.value = { width: current.clientWidth, height: current.clientHeight }
    })
    observer.observe(current)
    return () => observer.disconnect()
  }, [])

  const columns = columnWidth ? Math.max(1, Math.floor(size.value.width / columnWidth)) : 1
  const rows = Math.ceil(items.length / columns)
  const first = Math.max(0, Math.floor(top.value / rowHeight) - spareRows)
  const last = Math.min(rows, Math.ceil((top.value + size.value.height) / rowHeight) + spareRows)
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
    <div class=${`virtual-list ${props.class ?? ''}`} ref=${list} tabindex="0" role="list" aria-label=${label}
      onScroll=${() => (top.value = list.current?.scrollTop ?? 0)}>
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
