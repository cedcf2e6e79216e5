import { type Signal, useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

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
