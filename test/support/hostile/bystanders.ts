import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { completion } from '../upstream.ts'

/*
 * Bystanders of the attack. They run in a separate process, so that the attackers do not slow them down. One bystander requests
 * `/livez`, one requests a plant, and one sends small chats. If the attack lasts, another account sends chats of 1 MB, one after
 * the other. The upstream of the chats is also in this process. The first message to the parent has the port of that upstream;
 * then the process waits for commands.
 */

/** A command: send requests to a service, or end and report. */
export type Order =
  | {
      readonly url: string
      /** The key of the bystanders with small requests, whose account has a plant with the id 1. */
      readonly key: string
      /** The key of the bystander with large chats; undefined for none. */
      readonly largeKey: string | undefined
    }
  | 'end'

/** The measurements of one kind of bystander. */
export interface Seen {
  /** Latencies in milliseconds, as if requests came at a fixed pace and did not wait for earlier requests. */
  readonly waits: readonly number[]
  /** The number of refusals and missing replies. */
  readonly refused: number
}

export type Sights = Readonly<Record<'livez' | 'plant' | 'chat' | 'large', Seen>>

/** Milliseconds between two requests. */
const pace = 10
/** Large chats count from this time on: the pool has first to find out which accounts send heavy jobs. */
const largeAfterMs = 10_000

const chat = (content: string) => JSON.stringify({ model: 'bystander', messages: [{ role: 'user', content }] })
const smallChat = chat('Hi')
const largeChat = chat('My leaves turn yellow in the shade. '.repeat(28_000))

interface Asked {
  readonly path: string
  readonly key: string
  readonly body?: string
}

/** One round of measuring. */
class Round {
  readonly #url: string
  readonly #ending = new AbortController()
  readonly #began = performance.now()
  readonly #sights = { livez: newSight(), plant: newSight(), chat: newSight(), large: newSight() }

  constructor({ url, key, largeKey }: Exclude<Order, 'end'>) {
    this.#url = url
    void this.#ask('livez', { path: '/livez', key })
    void this.#ask('plant', { path: '/plants/1', key })
    void this.#ask('chat', { path: '/chat/completions', key, body: smallChat })
    if (largeKey !== undefined) void this.#askLarge({ path: '/chat/completions', key: largeKey, body: largeChat })
  }

  /**
   * Ends the round, and aborts its requests. The latency of an aborted request is added after this call, if the request has
   * waited longer than the pace.
   */
  end(): Sights {
    this.#ending.abort()
    return this.#sights
  }

  /** Sends requests at the pace. If a request delays later requests, their latencies are added, too. */
  async #ask(kind: 'livez' | 'plant' | 'chat', asked: Asked): Promise<void> {
    const sight = this.#sights[kind]
    while (!this.#ending.signal.aborted) {
      const start = performance.now()
      const status = await this.#status(asked)
      const waited = performance.now() - start
      if (this.#ending.signal.aborted && waited <= pace) return
      for (let wait = waited; wait > 0; wait -= pace) sight.waits.push(wait)
      if (status !== 200 && !this.#ending.signal.aborted) sight.refused++
      await sleep(Math.max(0, pace - waited))
    }
  }

  /** Sends large chats without a pause; a refused chat is sent again after a second, and its latency goes on. */
  async #askLarge(asked: Asked): Promise<void> {
    const sight = this.#sights.large
    while (!this.#ending.signal.aborted) {
      const start = performance.now()
      while ((await this.#status(asked)) !== 200 && !this.#ending.signal.aborted) {
        if (start - this.#began >= largeAfterMs) sight.refused++
        await sleep(1000)
      }
      if (start - this.#began >= largeAfterMs) sight.waits.push(performance.now() - start)
    }
  }

  #status({ path, key, body }: Asked): Promise<number> {
    return new Promise((resolve) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const method = body === undefined ? 'GET' : 'POST'
      const asked = request(`${this.#url}${path}`, { method, headers, signal: this.#ending.signal }, (response) => {
        response.resume().once('close', () => resolve(response.statusCode ?? 0))
      })
      asked.once('error', () => resolve(0))
      asked.end(body)
    })
  }
}

function newSight(): { readonly waits: number[]; refused: number } {
  return { waits: [], refused: 0 }
}

const answer = JSON.stringify(completion('Hello.'))
const upstream = createServer((incoming, response) => {
  incoming.resume().once('end', () => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(answer)
  })
}).listen(0, '127.0.0.1', () => process.send?.({ port: (upstream.address() as AddressInfo).port }))

let round: Round | undefined
process.on('message', (order: Order) => {
  if (order !== 'end') {
    round = new Round(order)
    return
  }
  const sights = round?.end()
  // After this time the latencies of the aborted requests have been added.
  setTimeout(() => process.send?.(sights), 50)
})
process.on('disconnect', () => process.exit())
