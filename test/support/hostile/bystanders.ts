import { createServer, get, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/*
 * Bystanders of the attack. They run in a separate process, so that the attackers do not slow them down. One bystander requests
 * plants, one requests `/livez`, and one reads a stream. The upstream of the stream is also in this process, and sends a chunk at
 * a fixed pace. The first message to the parent has the port of that upstream; then the process waits for commands.
 */

/** A command: send requests to a service with a key, or end and report. */
export type Order = { readonly url: string; readonly key: string } | 'end'

/** The measurements of one kind of bystander. */
export interface Seen {
  /** Latencies in milliseconds, as if requests came at a fixed pace and did not wait for earlier requests. */
  readonly waits: readonly number[]
  /** The number of refusals and missing replies. */
  readonly refused: number
}

export interface Sights {
  readonly livez: Seen
  readonly plants: Seen
  readonly stream: Seen
}

/** Milliseconds between two requests, and between two chunks. */
const pace = 10

/** One round of measuring. */
class Round {
  readonly #url: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #ending = new AbortController()
  readonly #sights = {
    livez: { waits: [] as number[], refused: 0 },
    plants: { waits: [] as number[], refused: 0 },
    stream: { waits: [] as number[], refused: 0 },
  }

  constructor(url: string, key: string) {
    this.#url = url
    this.#headers = { authorization: `Bearer ${key}` }
    void this.#ask('livez', '/livez')
    void this.#ask('plants', '/plants')
    void this.#read()
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
  async #ask(kind: 'livez' | 'plants', path: string): Promise<void> {
    const sight = this.#sights[kind]
    while (!this.#ending.signal.aborted) {
      const start = performance.now()
      const status = await this.#status(path)
      const waited = performance.now() - start
      if (this.#ending.signal.aborted && waited <= pace) return
      for (let wait = waited; wait > 0; wait -= pace) sight.waits.push(wait)
      if (status !== 200 && !this.#ending.signal.aborted) sight.refused++
      await sleep(Math.max(0, pace - waited))
    }
  }

  #status(path: string): Promise<number> {
    return new Promise((resolve) => {
      const asked = get(`${this.#url}${path}`, { headers: this.#headers, signal: this.#ending.signal }, (response) => {
        response.resume().once('close', () => resolve(response.statusCode ?? 0))
      })
      asked.once('error', () => resolve(0))
    })
  }

  /** Reads one stream after the other. */
  async #read(): Promise<void> {
    const sight = this.#sights.stream
    while (!this.#ending.signal.aborted) {
      const status = await this.#stream(sight.waits)
      if (this.#ending.signal.aborted) return
      if (status !== 200) sight.refused++
      await sleep(pace)
    }
  }

  #stream(waits: number[]): Promise<number> {
    return new Promise((resolve) => {
      const headers = { ...this.#headers, 'content-type': 'application/json' }
      const options = { method: 'POST', headers, signal: this.#ending.signal }
      const asked = request(`${this.#url}/chat/completions`, options, (response) => {
        let rest = ''
        response.on('data', (piece) => {
          const lines = (rest + String(piece)).split('\n')
          rest = lines.pop() ?? ''
          for (const line of lines) {
            const [, sent] = /at (\d+\.\d+)/.exec(line) ?? []
            if (sent !== undefined) waits.push(performance.now() - Number(sent))
          }
        })
        response.once('close', () => resolve(response.statusCode ?? 0))
      })
      asked.once('error', () => resolve(0))
      asked.end(JSON.stringify({ model: 'paced', messages: [{ role: 'user', content: 'Hi' }], stream: true }))
    })
  }
}

const upstream = createServer((incoming, response) => {
  incoming.resume()
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const say = (delta: object) => {
    const choices = [{ index: 0, delta, logprobs: null, finish_reason: null }]
    const chunk = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1700000000, model: 'paced', choices }
    response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }
  say({ role: 'assistant', content: '' })
  const pacing = setInterval(() => say({ content: `at ${performance.now().toFixed(3)} ` }), pace)
  response.once('close', () => clearInterval(pacing))
}).listen(0, '127.0.0.1', () => process.send?.({ port: (upstream.address() as AddressInfo).port }))

let round: Round | undefined
process.on('message', (order: Order) => {
  if (order !== 'end') {
    round = new Round(order.url, order.key)
    return
  }
  const sights = round?.end()
  // After this time the latencies of the aborted requests have been added.
  setTimeout(() => process.send?.(sights), 50)
})
process.on('disconnect', () => process.exit())
