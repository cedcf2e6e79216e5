import { Readable } from 'node:stream'
import { setImmediate as endOfTurn } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf, type Guard } from '../access/guard.ts'
import { overloaded } from '../errors.ts'
import { jsonType, type ListRequest, nextLink, sendIfNotModified } from './page-replies.ts'
import type { PagesOf, PlantPage, PlantQuery, PlantStore, Position } from './plant.ts'

/** The most plants of a list that is sent as one text. A longer list is streamed, whether or not the request has a limit. */
export const maxWholeList = 1000

/** The most long lists that may be open at the same time: of all accounts, and of one account. */
const maxOpenLists = 32
const maxOpenListsOfAccount = 8

const tooMany = `Too many long lists are being read. Ask for pages with a limit of at most ${maxWholeList}, or try again in a second.`

/** The longest text of a page that is kept in memory between the two readings of the page (`#sendPage`). */
const maxKeptBytes = 1024 ** 2

/** The facts about a list that the headers of its reply need. */
interface ListSummary {
  /** The length of the text; undefined if the text was not read to its end. */
  readonly bytes?: number
  /** The text of a list that is no snapshot; undefined if it is longer than `maxKeptBytes`. */
  readonly text: string | undefined
  /** The position of the last plant, if more plants follow. */
  readonly last: Position | undefined
}

/** Streams lists that are too long to be sent as one text, with backpressure. `OpenLists` limits how many lists are open. */
export class LongReplies {
  readonly #store: PlantStore
  readonly #guard: Guard
  readonly #open = new OpenLists()

  constructor(store: PlantStore, guard: Guard) {
    this.#store = store
    this.#guard = guard
  }

  /**
   * Streams a list: all plants, or a page of them.
   * @throws ApiError 503 when too many long lists are open; 401 or 403 when the key becomes invalid before the headers are sent
   */
  async send(request: FastifyRequest, reply: FastifyReply, listRequest: ListRequest): Promise<void> {
    // The version is read before the plants: after a change in between, the `ETag` is too old, and never gets a 304.
    const version = await this.#store.fetchVersion(callerOf(request).account.id)
    if (version !== null && sendIfNotModified(request, reply, version, listRequest.include)) return
    if (Number.isFinite(listRequest.limit)) await this.#sendPage(request, reply, listRequest)
    else this.#sendAll(request, reply, listRequest.query)
  }

  #sendAll(request: FastifyRequest, reply: FastifyReply, query: PlantQuery): void {
    const account = callerOf(request).account.id
    this.stream(request, reply, jsonType, () => this.#store.listLong(account, query, (pages) => jsonArray(pages())))
  }

  /**
   * Streams texts with plants.
   * @throws ApiError 503 when too many long lists are open
   */
  stream(request: FastifyRequest, reply: FastifyReply, type: string, read: () => AsyncIterable<string>): void {
    const list = this.#begin(request, reply, read)
    if (list) reply.header('content-type', type).send(list)
  }

  /**
   * Sends a page. A page of a snapshot is read twice: first for the headers, which have the length of the text and the position
   * of the last plant, then for the text. The snapshot rarely moves to a newer state between the readings. If this move changes the
   * length of the text, the reply fails. Without snapshots, a short text is kept from the first reading. A long text is sent
   * without `content-length`, so the first reading ends when the text is too long to be kept.
   */
  async #sendPage(request: FastifyRequest, reply: FastifyReply, listRequest: ListRequest): Promise<void> {
    const { query, limit } = listRequest
    const account = callerOf(request).account.id
    const { promise, resolve, reject } = Promise.withResolvers<ListSummary | undefined>()
    const list = this.#begin(request, reply, () => this.#store.listLong(account, query, texts, limit))
    const isOver = () => list?.destroyed === true
    const endOfPage = this.#store.endOfPage?.bind(this.#store, account, query, limit)
    async function* texts(pages: PagesOf): AsyncIterable<string> {
      const summary = await summaryOf(pages(), isOver, endOfPage)
      resolve(summary)
      if (endOfPage) yield* jsonArray(failOnMore(pages(summary?.last)))
      else yield* ofLength(jsonArray(pages()), summary?.bytes ?? 0)
    }
    if (!list) return
    list.once('error', reject).once('close', () => resolve(undefined))
    // Starts reading without taking data.
    list.read(0)
    const summary = await promise
    if (!summary || isOver()) return
    const kept = summary.text
    if (kept !== undefined) list.destroy()
    if (summary.last) reply.header('link', nextLink(summary.last, listRequest))
    if (!endOfPage || kept !== undefined) reply.header('content-length', summary.bytes)
    reply.header('content-type', jsonType).send(kept ?? list)
  }

  /**
   * Opens a long list as a stream, which is closed when the reply closes or the caller's key becomes invalid.
   * @returns undefined if the client has disconnected
   */
  #begin(request: FastifyRequest, reply: FastifyReply, read: () => AsyncIterable<string>): Readable | undefined {
    // After the `close` event, the listeners below would not be called, so the list would never be closed.
    if (reply.raw.destroyed) return undefined
    reply.raw.once('close', this.#open.enter(callerOf(request).account.id))
    const list = Readable.from(read())
    const ending = new AbortController()
    ending.signal.addEventListener('abort', () => list.destroy(ending.signal.reason))
    reply.raw.once('close', this.#guard.watch(request, ending))
    reply.raw.once('close', () => list.destroy())
    return list
  }
}

/**
 * Reads a list for the headers of its reply; undefined if the reply ends meanwhile.
 * @param endOfPage finds the position of the last plant without the texts. Then the texts are read only until they are too long to
 *   be kept. Undefined if all texts are needed
 */
async function summaryOf(
  pages: AsyncIterable<PlantPage>,
  isOver: () => boolean,
  endOfPage: (() => Promise<Position | undefined>) | undefined,
): Promise<ListSummary | undefined> {
  let last: Position | undefined
  async function* tracked(): AsyncIterable<PlantPage> {
    for await (const page of pages) {
      last = page.last
      yield page
    }
  }
  let bytes = 0
  const kept: string[] = []
  for await (const text of jsonArray(tracked())) {
    if (isOver()) return undefined
    bytes += Buffer.byteLength(text)
    if (!endOfPage) continue
    if (bytes > maxKeptBytes) return { text: undefined, last: await endOfPage() }
    kept.push(text)
  }
  return { bytes, text: endOfPage && kept.join(''), last }
}

/** Passes texts on. Fails if the number of bytes differs from `bytes`: the client would read further bytes as the next reply. */
async function* ofLength(texts: AsyncIterable<string>, bytes: number): AsyncIterable<string> {
  let left = bytes
  for await (const text of texts) {
    left -= Buffer.byteLength(text)
    if (left < 0) break
    yield text
  }
  if (left !== 0) throw new Error('the plants of a page changed while it was sent')
}

/**
 * Passes pages on. Fails at the end if added plants have pushed the last plants out of the page: the next page begins after these
 * plants, so the client would never get them.
 */
async function* failOnMore(pages: AsyncIterable<PlantPage>): AsyncIterable<PlantPage> {
  let isMore = false
  for await (const page of pages) {
    yield page
    isMore = page.last !== undefined
  }
  if (isMore) throw new Error('plants were added to a page while it was sent')
}

/** Writes pages as the text of one JSON array, one piece for each page. */
export async function* jsonArray(pages: AsyncIterable<PlantPage>): AsyncIterable<string> {
  let separator = '['
  for await (const { json } of pages) {
    yield separator + json.slice(1, -1)
    separator = ','
    // A fast reader takes each piece immediately: without this pause, one turn of the event loop would send the whole list.
    await endOfTurn()
  }
  yield ']'
}

/** Counts the long lists that are open: each list takes memory and time until its reader is done. */
export class OpenLists {
  readonly #open = new Map<number, number>()
  #count = 0

  /**
   * Opens a list of an account.
   * @returns a function to call when the list is over
   * @throws ApiError 503 when too many lists are open
   */
  enter(account: number): () => void {
    const own = this.#open.get(account) ?? 0
    if (this.#count >= maxOpenLists || own >= maxOpenListsOfAccount) throw overloaded(tooMany)
    this.#open.set(account, own + 1)
    this.#count++
    return () => this.#leave(account)
  }

  #leave(account: number): void {
    const own = this.#open.get(account) ?? 0
    if (own > 1) this.#open.set(account, own - 1)
    else this.#open.delete(account)
    this.#count--
  }
}
