import { type Signal, useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** Which rows of a list are in sight. */
export interface RowWindow {
  /** The element that scrolls. */
  readonly scroller: RefObject<HTMLDivElement | null>
  /** Its size in pixels; 0 before it is laid out. */
  readonly size: Signal<{ readonly width: number; readonly height: number }>
  /** Pixels above what is in sight. */
  readonly top: Signal<number>
  readonly onScroll: () => void
}

/** Rows above and below those in sight that are there already, for quick scrolling. */
const spareRows = 4

/** Watches what is in sight of an element that scrolls. */
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

/** The first row that is shown, and the one after the last. @param rowHeight pixels */
export function rowsInSight(
  { top, size }: RowWindow,
  rows: number,
  rowHeight: number,
): { first: number; last: number } {
  const inSight = Math.ceil(size.value.height / rowHeight) + 1
  // A list that has become shorter is not scrolled as far any more, and no event may have told so.
  const topmost = Math.max(0, Math.min(Math.floor(top.value / rowHeight), rows - inSight))
  return { first: Math.max(0, topmost - spareRows), last: Math.min(rows, topmost + inSight + spareRows) }
}
