import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { ownValue } from '../base/own-value.ts'
import { type RowWindow, rowsInSight, useRowWindow } from '../ui/virtual-list.ts'
import type { Plant } from './plant.ts'

interface TableProps {
  readonly plants: readonly Plant[]
  /** Whether the list has further pages. */
  readonly hasMore: boolean
  readonly mayDelete: boolean
  readonly onOpen: (plant: Plant) => void
  readonly onDelete: (plant: Plant) => void
  readonly onTag: (tag: string) => void
  /** Called when the end of the table comes into sight. */
  readonly onEnd: () => void
}

/** The height of a row in pixels, as in the style sheet. */
const rowHeight = 44

/** The index of the active row. The keys move the active row. */
const active = signal(0)

/** The key of the plant to scroll to. */
const revealed = signal<number | undefined>(undefined)

/** Scrolls to a plant, and makes it the active row. */
export function reveal({ key }: Plant): void {
  revealed.value = key
}

/**
 * The table of plants. Only the rows in sight are in the document. So the table has the focus, and not a row, and the keys move
 * the active row.
 */
export function PlantTable(props: TableProps): VNode {
  const { plants, hasMore, onEnd } = props
  const window = useRowWindow()
  const { first, last } = rowsInSight(window, plants.length, rowHeight)
  const chosen = Math.min(active.value, plants.length - 1)
  const isLaidOut = window.size.value.height > 0
  useEffect(() => {
    if (isLaidOut && last >= plants.length) onEnd()
  }, [last, plants, isLaidOut])
  useEffect(() => {
    const { value: wanted } = revealed
    if (wanted === undefined) return
    const index = plants.findIndex(({ key }) => key === wanted)
    if (index === -1) return
    revealed.value = undefined
    activate(index, window)
  }, [plants, revealed.value])

  const chosenKey = chosen >= first && chosen < last ? plants[chosen]?.key : undefined
  return html`
    <div class="panel plants-table" ref=${window.scroller} role="grid" tabindex="0" aria-label="Plants"
      aria-rowcount=${hasMore ? -1 : plants.length + 1} aria-activedescendant=${chosenKey === undefined ? undefined : rowId(chosenKey)}
      aria-describedby="plants-keys" onScroll=${window.onScroll} onKeyDown=${(event: KeyboardEvent) => press(event, props, chosen, window)}>
      <div role="row" class="head" aria-rowindex="1">
        <span role="columnheader">Name</span>
        <span role="columnheader">Tag</span>
        <span role="columnheader"><span class="unseen">Delete, or shared</span></span>
      </div>
      <div role="presentation" style=${{ height: `${plants.length * rowHeight}px` }}>
        <div role="presentation" style=${{ transform: `translateY(${first * rowHeight}px)` }}>
          ${plants.slice(first, last).map((plant, index) => html`<${Row} key=${plant.key} plant=${plant} index=${first + index} isActive=${plant.key === chosenKey} table=${props} />`)}
        </div>
      </div>
    </div>
  `
}

interface RowProps {
  readonly plant: Plant
  readonly index: number
  readonly isActive: boolean
  readonly table: TableProps
}

function Row({ plant, index, isActive, table }: RowProps): VNode {
  const { name, tag, id, key } = plant
  const open = () => {
    active.value = index
    table.onOpen(plant)
  }
  return html`
    <div role="row" id=${rowId(key)} class=${isActive ? 'active' : ''} aria-rowindex=${index + 2} aria-selected=${isActive} onClick=${open}>
      <span role="gridcell" class="name one-line" dir="auto" title=${name}>${name}</span>
      <span role="gridcell">${tag !== undefined && html`<button type="button" class="tag one-line" tabindex="-1" dir="auto" title=${tag} onClick=${alone(() => table.onTag(tag))}>${tag}</button>`}</span>
      <span role="gridcell" class="end">
        ${id === undefined && html`<span class="faint">Shared</span>`}
        ${id !== undefined && table.mayDelete && html`<button type="button" class="quiet danger" tabindex="-1" onClick=${alone(() => table.onDelete(plant))}>Delete<span class="unseen"> ${name}</span></button>`}
      </span>
    </div>
  `
}

/** Makes a listener for a button in a row. The click on the button does not open the row. */
function alone(work: () => void): (event: Event) => void {
  return (event) => {
    event.stopPropagation()
    work()
  }
}

function rowId(key: number): string {
  return `plant-${key}`
}

/** For each key, the function that returns the index of the next active row. */
const moves: Readonly<Record<string, (from: number, rows: number, inSight: number) => number>> = {
  ArrowDown: (from) => from + 1,
  ArrowUp: (from) => from - 1,
  PageDown: (from, _rows, inSight) => from + inSight,
  PageUp: (from, _rows, inSight) => from - inSight,
  Home: () => 0,
  End: (_from, rows) => rows - 1,
}

function press(
  event: KeyboardEvent,
  { plants, mayDelete, onOpen, onDelete }: TableProps,
  chosen: number,
  window: RowWindow,
): void {
  const plant = plants[chosen]
  if (!plant || event.target !== event.currentTarget || event.altKey || event.metaKey) return
  const move = ownValue(moves, event.key)
  if (move) {
    const inSight = Math.max(1, Math.floor(window.size.value.height / rowHeight) - 2)
    activate(Math.max(0, Math.min(plants.length - 1, move(chosen, plants.length, inSight))), window)
  } else if (event.key === 'Enter') onOpen(plant)
  else if (['Delete', 'Backspace'].includes(event.key) && mayDelete && plant.id !== undefined) onDelete(plant)
  else return
  event.preventDefault()
}

/** Makes a row the active one, and scrolls it into sight. The sticky head covers the height of one row. */
function activate(index: number, { scroller, onScroll }: RowWindow): void {
  active.value = index
  const { current } = scroller
  if (!current) return
  const start = index * rowHeight
  const lowest = start + 2 * rowHeight - current.clientHeight
  if (current.scrollTop > start) current.scrollTop = start
  else if (current.scrollTop < lowest) current.scrollTop = lowest
  onScroll()
}
