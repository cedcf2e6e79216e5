import { setImmediate as endOfTurn } from 'node:timers/promises'

/** Items that are read in one turn of the event loop. An item may have 50 kB, because a key may have a long list of models. */
const itemsOfTurn = 50
/** The most characters of a page. */
const maxLength = 1024 ** 2

/** The parameters of a page. */
interface PageOptions<Item> {
  /** The most items of the page. */
  readonly limit: number
  /** Reads at most `count` items after an item; without an item, from the beginning of the page. */
  readonly read: (last: Item | undefined, count: number) => Promise<readonly Item[]>
  /** The approximate number of characters of an item in the reply; undefined for an item that the page leaves out. */
  readonly lengthOf: (item: Item) => number | undefined
}

/**
 * Reads a page of a list, a few items in each turn of the event loop.
 * @returns at most `limit` items, fewer if the items are long, and whether more items follow
 */
export async function readPage<Item>({ limit, read, lengthOf }: PageOptions<Item>) {
  const items: Item[] = []
  let length = 0
  for (let last: Item | undefined; ; ) {
    const next = await read(last, itemsOfTurn)
    for (const item of next) {
      const own = lengthOf(item)
      if (own === undefined) continue
      length += own
      const isFull = items.length === limit || (items.length > 0 && length > maxLength)
      if (isFull) return { items, hasMore: true }
      items.push(item)
    }
    if (next.length < itemsOfTurn) return { items, hasMore: false }
    last = next.at(-1)
    await endOfTurn()
  }
}
