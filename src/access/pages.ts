import type { FastifyReply } from 'fastify'

/** Items of one query. An item may have 100 kB, because a key may have a long list of models. */
const itemsOfQuery = 20
/** The most characters of a page. */
const maxLength = 1024 ** 2

/** The parameters of a page. */
interface PageOptions<Item> {
  /** The most items of the page. */
  readonly limit: number
  /** Reads at most `count` items after an item; without an item, from the beginning of the page. */
  readonly read: (last: Item | undefined, count: number) => Promise<readonly Item[]>
  /** Whether the page has the item; by default it has all items. */
  readonly isListed?: (item: Item) => boolean
  /** Makes the body of an item in the reply. */
  readonly bodyOf: (item: Item) => object
}

/** Sends a page of a list: at most `limit` items, fewer if the items are long, and whether more items follow. */
export async function sendPage<Item>(
  reply: FastifyReply,
  { limit, read, isListed = () => true, bodyOf }: PageOptions<Item>,
): Promise<FastifyReply> {
  const texts: string[] = []
  let length = 0
  let last: Item | undefined
  let isFull = false
  for (let isEnd = false; !isEnd && !isFull; ) {
    const next = await read(last, itemsOfQuery)
    last = next.at(-1)
    isEnd = next.length < itemsOfQuery
    for (const item of next.filter(isListed)) {
      const text = JSON.stringify(bodyOf(item))
      length += text.length
      isFull = texts.length === limit || (texts.length > 0 && length > maxLength)
      if (isFull) break
      texts.push(text)
    }
  }
  const json = `{"object":"list","data":[${texts.join()}],"has_more":${isFull}}`
  return reply.type('application/json; charset=utf-8').send(json)
}
