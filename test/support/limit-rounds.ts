import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turnOfLoop, setTimeout as wait } from 'node:timers/promises'
import type { Killable } from './kill-rounds.ts'
import { completion, streamOf } from './upstream.ts'

/*
 * Many parallel chat requests against a limit of ten in-flight requests, with clients that disconnect, upstreams that fail or
 * never answer, and kill -9.
 */

/** The limit `chat_at_once` of the tests: how many chat requests may be in flight. */
export const placesAtOnce = 10
/** The tokens that the upstream reports for each answer. */
export const tokensEach = 18

const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: tokensEach }
const usageEvent = `data: ${JSON.stringify({ id: 'chatcmpl-upstream', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage })}\n\n`
const words = streamOf('one two three four')
const events = [...words.slice(0, -1), usageEvent, ...words.slice(-1)]

/**
 * The kinds of requests. Each is the name of a model, which tells the upstream how to behave; with `leave` the client
 * disconnects.
 */
const kinds = ['answer', 'fail', 'cut', 'hang', 'leave'] as const
type Kind = (typeof kinds)[number]

/** An upstream that counts its parallel requests. */
export interface WatchfulUpstream {
  readonly url: string
  /** How often more requests than the limit were in flight; aborted requests do not count. */
  readonly tooMany: () => number
  /** Holds answers of the kinds `answer`, `fail` and `cut`, until `release` is called or more requests than the limit arrive. */
  hold(): void
  /** Whether the upstream holds as many answers as the limit allows requests. */
  readonly isFull: () => boolean
  release(): void
  close(): Promise<void>
}

/** Starts the upstream; the caller closes it. */
export async function startWatchfulUpstream(): Promise<WatchfulUpstream> {
  const open = new Set<ServerResponse>()
  let tooMany = 0
  let waiting = 0
  let gate = Promise.withResolvers<void>()
  gate.resolve()
  const look = async () => {
    if (open.size <= placesAtOnce) return
    const all = [...open]
    // The abort of a request may arrive some turns of the event loop later than the request that takes its place.
    for (let turn = 0; turn < 10; turn++) await turnOfLoop()
    const givenUp = all.filter((response) => response.destroyed && !response.writableFinished)
    if (all.length - givenUp.length <= placesAtOnce) return
    tooMany++
    gate.resolve()
  }
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    open.add(response)
    response.once('close', () => open.delete(response))
    void look()
    const { stream, model }: { stream: boolean; model: Kind } = JSON.parse(Buffer.concat(pieces).toString('utf8'))
    if (model === 'hang' || (model === 'leave' && !stream)) return
    if (model !== 'leave') {
      waiting++
      await gate.promise
      waiting--
    }
    await wait(Math.random() * 20)
    if (!response.destroyed) await reply(response, model, stream, () => open.delete(response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    tooMany: () => tooMany,
    hold: () => {
      gate = Promise.withResolvers()
    },
    isFull: () => waiting >= placesAtOnce,
    release: () => gate.resolve(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Answers a request. @param ending is called right before the end of the answer: from then on another request may be admitted */
async function reply(response: ServerResponse, kind: Kind, isStream: boolean, ending: () => void): Promise<void> {
  if (kind === 'fail') {
    ending()
    response.writeHead(500).end('no')
    return
  }
  if (isStream) response.writeHead(200, { 'content-type': 'text/event-stream' })
  const sent = { answer: events.length - 1, cut: 3, leave: 1, hang: 0 }[kind]
  for (const event of isStream ? events.slice(0, sent) : []) {
    response.write(event)
    await wait(1)
  }
  if (kind === 'leave') return
  ending()
  if (kind === 'cut') response.socket?.resetAndDestroy()
  else if (isStream) response.end(events.at(-1))
  else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion('hello')))
}

/** The models of the services, without retries. Only the model `hang` has short timeouts. */
export const watchedModels = (url: string) => {
  const once = { adapter: 'openai', baseUrl: url, retries: 0, breaker: { failures: 0 } }
  const models = Object.fromEntries(kinds.map((kind) => [kind, once]))
  return { ...models, hang: { ...once, timeouts: { firstToken: 60, idle: 60, total: 200 } } }
}

/** The result of one request for its caller. */
interface Seen {
  /** The status; undefined if the caller disconnected or the service did not answer. */
  readonly status: number | undefined
  /** The id of the request, if its reply was successful and complete. */
  readonly completed: string | undefined
}

/** Sends a chat request. With the kind `leave` the client disconnects when the stream has begun, or at a random moment. */
async function ask(url: string, key: string, kind: Kind, stream: boolean): Promise<Seen> {
  const leaving = new AbortController()
  if (kind === 'leave' && !stream) setTimeout(() => leaving.abort(), Math.random() * 60)
  try {
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: kind, stream, messages: [{ role: 'user', content: 'Good morning.' }] }),
      signal: leaving.signal,
    })
    if (kind === 'leave' && response.status === 200) leaving.abort()
    const text = await response.text()
    const isWhole = response.status === 200 && (!stream || text.endsWith('data: [DONE]\n\n'))
    const id = response.headers.get('x-request-id') ?? undefined
    return { status: response.status, completed: isWhole ? id : undefined }
  } catch {
    return { status: undefined, completed: undefined }
  }
}

/** The end of a request that was not refused. */
function endingOf({ status, completed }: Seen): string {
  if (completed !== undefined) return 'answered'
  if (status === undefined) return 'left'
  // A stream has the status 200 even if it fails later.
  return status === 200 || status === 502 ? 'failed' : String(status)
}

/** The maximum number of attempts of a request. A request needs more only if ended requests still count as in flight. */
const maxTries = 100

/**
 * Sends a hundred parallel requests to replicas in each round, and repeats refused requests. The upstream holds its answers until
 * the limit is reached and one more request was refused, so that both happen on any machine. At the end of a round as many requests
 * as the limit allows are sent to each replica.
 * @returns the results of each kind of request, and whether no ended request counted as in flight at the end
 */
export async function crowd(urls: readonly string[], key: string, rounds: number, upstream: WatchfulUpstream) {
  const endings = Object.fromEntries(kinds.map((kind) => [kind, new Set<string>()]))
  let areFree = true
  for (let round = 0; round < rounds; round++) {
    upstream.hold()
    const callers = Array.from({ length: 100 }, async (_, caller) => {
      const kind = kinds[caller % kinds.length] ?? 'answer'
      for (let tries = 1; ; tries++) {
        const url = urls[(caller + tries) % urls.length] ?? ''
        const isFull = upstream.isFull()
        const seen = await ask(url, key, kind, caller % 2 === 0)
        if (seen.status === 429 && (isFull || tries === maxTries)) upstream.release()
        if (seen.status !== 429 || tries === maxTries) return endings[kind]?.add(endingOf(seen))
        await wait(Math.random() * 300)
      }
    })
    await Promise.all(callers)
    for (const url of urls) areFree &&= await allFree(url, key)
  }
  return { endings, areFree }
}

/** The expected results of each kind of request. */
export const properEndings = {
  answer: new Set(['answered']),
  fail: new Set(['failed']),
  cut: new Set(['failed']),
  hang: new Set(['504']),
  leave: new Set(['left']),
}

/** Whether as many parallel requests as the limit allows are admitted. Requests of disconnected clients get a second to end. */
export async function allFree(url: string, key: string): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const seen = await Promise.all(Array.from({ length: placesAtOnce }, (_, n) => ask(url, key, 'answer', n % 2 === 0)))
    if (seen.every(({ completed }) => completed !== undefined)) return true
    await wait(50)
  }
  return false
}

export interface SpendPlan {
  readonly rounds: number
  readonly key: string
  start(): Promise<Killable>
}

/**
 * Sends requests from as many callers as the limit allows, kills the service at a random moment, and starts it again, for each
 * round.
 * @returns the ids of the completed requests, and the number of requests that the limit refused
 */
export async function killWhileSpending({ rounds, key, start }: SpendPlan) {
  const completed = new Set<string>()
  let refused = 0
  for (let round = 0; round < rounds; round++) {
    const service = await start()
    let isOver = false
    const first = Promise.withResolvers<void>()
    const callers = Array.from({ length: placesAtOnce }, async (_, caller) => {
      while (!isOver) {
        const seen = await ask(service.url, key, 'answer', caller % 2 === 0)
        if (seen.completed !== undefined) {
          completed.add(seen.completed)
          first.resolve()
        }
        if (seen.status === 429) refused++
        if (seen.status === undefined) return
      }
    })
    await first.promise
    await wait(Math.random() * 250)
    await service.kill()
    isOver = true
    await Promise.all(callers)
  }
  return { completed, refused }
}
