import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf, type Guard } from '../access/guard.ts'
import { OpenLists } from './open-lists.ts'
import { isKnown, jsonArray, jsonType, nextLink } from './page-replies.ts'
import type { PagesOf, PlantPage, PlantQuery, PlantStore, PlantsVersion, Position } from './plant.ts'

/** A list that is asked for. */
export interface AskedList {
  readonly query: PlantQuery
  /** How many plants it has at most; infinite for all of them. */
  readonly limit: number
  /** The tag as it was sent: the address of the next page has it again. */
  readonly tag: string | undefined
  /** Null where it is known by reading alone. */
  readonly version: PlantsVersion | null
}

/** What the head of a reply tells of its text. */
interface Survey {
  readonly bytes: number
  /** The place of the last plant, where more are to come. */
  readonly last: Position | undefined
  /** Of the text and of the address of the next page. */
  readonly digest: PlantsVersion
}

/** Sends lists that are too long for the memory, in pieces, as their readers take them; so many at once. */
export class LongReplies {
  readonly #store: PlantStore
  readonly #guard: Guard
  readonly #open: OpenLists

  constructor(store: PlantStore, guard: Guard) {
    this.#store = store
    this.#guard = guard
    this.#open = new OpenLists(store.mostLists)
  }

  /**
   * Sends a list: all plants, or a page of them.
   * @throws ApiError 503 where so many long lists are open already, and what ends the key before there is a head
   */
  async send(request: FastifyRequest, reply: FastifyReply, asked: AskedList): Promise<void> {
    if (Number.isFinite(asked.limit)) await this.#sendPage(request, reply, asked)
    else this.#sendAll(request, reply, asked.query)
  }

  #sendAll(request: FastifyRequest, reply: FastifyReply, query: PlantQuery): void {
    const account = callerOf(request).account.id
    const list = this.#begin(request, reply, () => this.#store.listLong(account, query, (pages) => jsonArray(pages())))
    if (list) reply.header('content-type', jsonType).send(list)
  }

  /** A page is read twice, from one snapshot: the head, which goes first, tells of the whole text. */
  async #sendPage(request: FastifyRequest, reply: FastifyReply, asked: AskedList): Promise<void> {
    const { query, limit, tag, version } = asked
    const account = callerOf(request).account.id
    const { promise, resolve, reject } = Promise.withResolvers<Survey | undefined>()
    const list = this.#begin(request, reply, () => this.#store.listLong(account, query, texts, limit))
    const isOver = () => list?.destroyed === true
    async function* texts(pages: PagesOf): AsyncIterable<string> {
      resolve(await surveyOf(pages(), (last) => nextLink(last, limit, tag), isOver))
      yield* jsonArray(pages())
    }
    if (!list) return
    list.once('error', reject).once('close', () => resolve(undefined))
    // Begins to read, and takes nothing.
    list.read(0)
    const survey = await promise
    if (!survey || isOver()) return
    if (version === null && isKnown(request, reply, survey.digest)) {
      list.destroy()
      return
    }
    if (survey.last) reply.header('link', nextLink(survey.last, limit, tag))
    reply.header('content-type', jsonType).header('content-length', survey.bytes).send(list)
  }

  /** A long list as a stream, which ends with the reply or the caller's key; undefined where the caller has left. */
  #begin(request: FastifyRequest, reply: FastifyReply, read: () => AsyncIterable<string>): Readable | undefined {
    // Who has left will not leave again.
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

/** Reads a list for what its head tells; undefined where that is over before. */
async function surveyOf(
  pages: AsyncIterable<PlantPage>,
  linkTo: (last: Position) => string,
  isOver: () => boolean,
): Promise<Survey | undefined> {
  let last: Position | undefined
  async function* noted(): AsyncIterable<PlantPage> {
    for await (const page of pages) {
      last = page.last
      yield page
    }
  }
  const digest = createHash('sha256')
  let bytes = 0
  for await (const text of jsonArray(noted())) {
    if (isOver()) return undefined
    bytes += Buffer.byteLength(text)
    digest.update(text)
  }
  digest.update(`\n${last ? linkTo(last) : ''}`)
  return { bytes, last, digest: digest.digest('base64url') }
}
