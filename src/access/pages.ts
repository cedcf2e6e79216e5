import type { FastifyReply, FastifyRequest } from 'fastify'
import type { WorkOf } from '../http/json.ts'
import { whileConnected } from '../http/while-connected.ts'
import type { Steps, Work } from '../work.ts'

/** Items of one query, which is one step. An item may have 100 kB, because a key may have a long list of models. */
const itemsOfQuery = 20
/** The most characters of a page. */
const maxLength = 1024 ** 2

/** The parameters of a page. */
interface PageOptions<Item> {
  /** The most items of the page. */
  readonly limit: number
  /** Reads at most `count` items after an item; without an item, from the beginning of the page. */
  readonly read: (last: Item | undefined, count: number, work: Work) => Promise<readonly Item[]>
  /** Whether the page has the item; by default it has all items. */
  readonly isListed?: (item: Item) => boolean
  /** Makes the body of an item in the reply. */
  readonly bodyOf: (item: Item) => object
}

/**
 * Sends a page of a list: at most `limit` items, fewer if the items are long, and whether more items follow. The page is read and
 * written in the work of the request, which ends when the client leaves.
 */
export async function sendPage<Item>(
  request: FastifyRequest,
  reply: FastifyReply,
  workOf: WorkOf,
  options: PageOptions<Item>,
): Promise<FastifyReply> {
  const json = await whileConnected(request, (signal) => readPage(options, workOf(request, signal)))
  return reply.type('application/json; charset=utf-8').send(json)
}

/** Reads a page as bytes of JSON. */
async function readPage<Item>(
  { limit, read, isListed = () => true, bodyOf }: PageOptions<Item>,
  work: Work,
): Promise<Buffer> {
  const page = new JsonPage(limit)
  for (let last: Item | undefined; ; ) {
    const next = await read(last, itemsOfQuery, work)
    const isFull = await work.run('limit', page.add(next.filter(isListed).map(bodyOf)))
    if (isFull || next.length < itemsOfQuery) return await work.run('limit', page.end(isFull))
    last = next.at(-1)
  }
}

/** A page as JSON. Each item is a step of its own: to write and encode a page of 1 MiB in one step takes 25 ms. */
class JsonPage {
  readonly #limit: number
  readonly #pieces = [Buffer.from('{"object":"list","data":[')]
  #count = 0
  #length = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Adds items. @returns whether there was no room for one of them */
  *add(items: readonly object[]): Steps<boolean> {
    for (const item of items) {
      const text = JSON.stringify(item)
      this.#length += text.length
      if (this.#count === this.#limit || (this.#count > 0 && this.#length > maxLength)) return true
      this.#pieces.push(Buffer.from(this.#count++ === 0 ? text : `,${text}`))
      yield text.length
    }
    return false
  }

  *end(hasMore: boolean): Steps<Buffer> {
    yield this.#length
    return Buffer.concat([...this.#pieces, Buffer.from(`],"has_more":${hasMore}}`)])
  }
}
