import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { Agent, fetch, type Response } from 'undici'
import { parseStream } from './chat.ts'

/** The results of a load. */
export interface SoakLoad {
  /** The number of actions of each kind. */
  readonly visits: ReadonlyMap<string, number>
  /** Faults as sentences. Their number is bounded. */
  readonly faults: readonly string[]
  /** The paths of acknowledged plants that were not deleted, by the name of the plant. */
  readonly kept: ReadonlyMap<string, string>
}

interface Sending {
  readonly method?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** The maximum number of plants, so that a longer run does not have longer lists. */
const maxPlants = 1500

const asJson = { 'content-type': 'application/json' }
const models = ['understudy', 'unsteady', 'retried', 'saved']
const messages = [{ role: 'user', content: 'Why are my leaves turning yellow?' }]

/** Faulty requests, with the expected status of each. */
const wrong: readonly (readonly [status: number, path: string, sending: Sending])[] = [
  [400, '/plants', { method: 'POST', body: '{"name": ', headers: asJson }],
  [400, '/plants', { method: 'POST', body: '{"name": 5}', headers: asJson }],
  [415, '/plants', { method: 'POST', body: 'Moss', headers: { 'content-type': 'text/plain' } }],
  [400, '/plants?limit=none', {}],
  [404, '/plants/0', {}],
  [404, '/nowhere', {}],
  [401, '/plants', { headers: { authorization: 'Bearer nobody' } }],
  [400, '/chat/completions', { method: 'POST', body: '[]', headers: asJson }],
  [404, '/chat/completions', { method: 'POST', body: JSON.stringify({ model: 'nobody', messages }), headers: asJson }],
]

/** Runs a mixed load with some parallel callers for some seconds, and then closes all connections. */
export async function driveSoak(url: string, key: string, seconds: number, visitors: number): Promise<SoakLoad> {
  const load = new Load(url, key)
  const end = performance.now() + seconds * 1000
  const visitAgain = async (): Promise<void> => {
    while (performance.now() < end) {
      await load.visit()
      await wait(Math.random() * 40)
    }
  }
  await Promise.all(Array.from({ length: visitors }, visitAgain))
  await load.close()
  return load
}

class Load implements SoakLoad {
  readonly visits = new Map<string, number>()
  readonly faults: string[] = []
  readonly kept = new Map<string, string>()
  readonly #url: string
  readonly #key: string
  readonly #connections = new Agent()
  #count = 0
  /** The kinds of actions, from which one is drawn at random. Frequent kinds are listed several times. */
  readonly #kinds: readonly (readonly [name: string, visit: () => Promise<void>])[] = [
    ...Array.from({ length: 3 }, () => ['a page', () => this.#page()] as const),
    ['the whole list', () => this.#wholeList()],
    ...Array.from({ length: 4 }, () => ['a new plant', () => this.#add()] as const),
    ['a new plant, sent until it is answered', () => this.#addOnce()],
    ...Array.from({ length: 3 }, () => ['a deletion', () => this.#remove()] as const),
    ...Array.from({ length: 2 }, () => ['a whole answer', () => this.#chat(false)] as const),
    ...Array.from({ length: 3 }, () => ['a stream', () => this.#chat(true)] as const),
    ...Array.from({ length: 3 }, () => ['a client that leaves', () => this.#leave()] as const),
    ['half a request', () => this.#sendHalf()],
    ['bad input', () => this.#sendWrong()],
    ['is it alive', async () => void (await this.#read('/livez', 200))],
  ]

  constructor(url: string, key: string) {
    this.#url = url
    this.#key = key
  }

  /** Runs one action of a random kind. If the action fails, the failure is recorded as a fault. */
  async visit(): Promise<void> {
    const [name, visit] = oneOf(this.#kinds)
    this.visits.set(name, (this.visits.get(name) ?? 0) + 1)
    try {
      await visit()
    } catch (error) {
      const reason = error instanceof Error ? `${error.message} ${String(error.cause ?? '')}` : String(error)
      if (this.faults.length < 20) this.faults.push(`${name}: ${reason}`)
    }
  }

  close(): Promise<void> {
    return this.#connections.destroy()
  }

  /** Sends a request. After a 503 it repeats the request a second later, because other tests may use the machine. */
  async #send(path: string, { headers, ...more }: Sending = {}): Promise<Response> {
    for (let refusals = 0; ; refusals++) {
      const response = await fetch(this.#url + path, {
        // The timeout detects a blocked event loop, or a reply that never ends.
        signal: AbortSignal.timeout(20_000),
        ...more,
        dispatcher: this.#connections,
        headers: { authorization: `Bearer ${this.#key}`, ...headers },
      })
      if (response.status !== 503 || response.headers.get('retry-after') !== '1' || refusals === 5) return response
      await response.text()
      await wait(1000)
    }
  }

  async #read(
    path: string,
    status: number,
    sending?: Sending,
  ): Promise<{ text: string; headers: Response['headers'] }> {
    const response = await this.#send(path, sending)
    const text = await response.text()
    if (response.status === status) return { text, headers: response.headers }
    throw new Error(`${sending?.method ?? 'GET'} ${path} gave ${response.status} and not ${status}: ${text}`)
  }

  async #page(): Promise<void> {
    const { headers } = await this.#read('/plants?limit=20', 200)
    const next = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
    if (next !== undefined) await this.#read(next, 200)
  }

  async #wholeList(): Promise<void> {
    const before = [...this.kept.keys()]
    const { text } = await this.#read('/plants', 200)
    const plants: readonly { readonly name: string }[] = JSON.parse(text)
    const listed = new Set(plants.map(({ name }) => name))
    const missing = before.filter((name) => this.kept.has(name) && !listed.has(name))
    if (missing.length > 0) throw new Error(`the list has not ${missing.join(', ')}`)
  }

  async #add(): Promise<void> {
    if (this.kept.size >= maxPlants) return
    const name = `Plant ${this.#count++}`
    const { headers } = await this.#read('/plants', 200, plant(name))
    this.kept.set(name, headers.get('location') ?? '')
  }

  /**
   * Adds a plant. The client disconnects at a random moment, and repeats the request with the same Idempotency-Key until it
   * gets the reply.
   */
  async #addOnce(): Promise<void> {
    if (this.kept.size >= maxPlants) return
    const name = `Plant ${this.#count++}`
    const sending = plant(name, { 'idempotency-key': name.replace(' ', '-') })
    await this.#leaveDuring('/plants', sending)
    for (let attempt = 0; attempt < 200; attempt++) {
      const response = await this.#send('/plants', sending)
      await response.text()
      if (response.status === 200) return void this.kept.set(name, response.headers.get('location') ?? '')
      // A 409 means that the first request is still running.
      if (response.status !== 409) throw new Error(`the plant gave ${response.status}`)
      await wait(10)
    }
    throw new Error('the plant is never answered')
  }

  async #remove(): Promise<void> {
    const [first] = this.kept
    if (!first) return
    const [name, path] = first
    this.kept.delete(name)
    await this.#read(path, 204, { method: 'DELETE' })
  }

  async #chat(stream: boolean): Promise<void> {
    const model = oneOf(models)
    const response = await this.#send('/chat/completions', chat(model, stream))
    const text = await response.text()
    const isSteady = model === 'understudy' || model === 'saved'
    if (response.status !== 200) {
      if (!isSteady && [429, 502, 504].includes(response.status)) return
      throw new Error(`${model} gave ${response.status}: ${text}`)
    }
    if (!stream) return void JSON.parse(text)
    const { isDone, errors } = parseStream(text)
    if (isDone === errors.length > 0 || (model === 'understudy' && !isDone)) {
      throw new Error(
        `the stream of ${model} ended with ${isDone ? 'success' : 'no success'} and ${errors.length} errors`,
      )
    }
  }

  async #leave(): Promise<void> {
    await (Math.random() < 0.3
      ? this.#leaveDuring('/plants')
      : this.#leaveDuring('/chat/completions', chat(oneOf(models), Math.random() < 0.5)))
  }

  /** Sends a request, and disconnects within 60 ms, whether or not it has been answered. */
  async #leaveDuring(path: string, sending?: Sending): Promise<void> {
    const signal = AbortSignal.timeout(Math.floor(Math.random() * 60))
    await this.#send(path, { ...sending, signal })
      .then((response) => response.text())
      .catch((error: unknown) => {
        if (!signal.aborted) throw error
      })
  }

  /** Opens a connection, sends the beginning of a request, and drops the connection. */
  async #sendHalf(): Promise<void> {
    const { hostname, port } = new URL(this.#url)
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    socket.write(
      `POST /plants HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${this.#key}\r\ncontent-length: 99\r\n\r\n{"name`,
    )
    await wait(Math.random() * 60)
    socket.destroy()
  }

  async #sendWrong(): Promise<void> {
    const [status, path, sending] = oneOf(wrong)
    await this.#read(path, status, sending)
  }
}

function plant(name: string, headers: Readonly<Record<string, string>> = {}): Sending {
  return { method: 'POST', body: JSON.stringify({ name, tag: 'soak' }), headers: { ...asJson, ...headers } }
}

function chat(model: string, stream: boolean): Sending {
  const body = JSON.stringify({ model, messages, stream, character: 'Fern' })
  return { method: 'POST', body, headers: asJson }
}

function oneOf<T>(values: readonly T[]): T {
  const value = values[Math.floor(Math.random() * values.length)]
  if (value === undefined) throw new Error('there is nothing to choose from')
  return value
}
