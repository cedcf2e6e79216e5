import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turnOfLoop, setTimeout as wait } from 'node:timers/promises'
import type { Killable } from './kill-rounds.ts'
import { completion, streamOf } from './upstream.ts'

/*
 * Many chat requests at once against a limit of ten, with clients that leave, upstreams that fail or never answer, and
 * kill -9 (failure mode 28). A test and whoever wants more rounds share it, so nothing of vitest is in here.
 */

/** The limit that is tried. */
export const placesAtOnce = 10
/** What the upstream says that each answer took. */
export const tokensEach = 18

const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: tokensEach }
const usageEvent = `data: ${JSON.stringify({ id: 'chatcmpl-upstream', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage })}\n\n`
const words = streamOf('one two three four')
const events = [...words.slice(0, -1), usageEvent, ...words.slice(-1)]

/** An upstream that watches how many requests it has at once. */
export interface WatchfulUpstream {
  readonly url: string
  /** How often there were more than the limit, but for those that had been given up. */
  readonly tooMany: () => number
  /** Whether it answers everything, or fails at random. */
  behave(isGood: boolean): void
  close(): Promise<void>
}

/** Starts it; whoever does closes it. */
export async function startWatchfulUpstream(): Promise<WatchfulUpstream> {
  const open = new Set<ServerResponse>()
  let tooMany = 0
  let isGood = false
  const look = async () => {
    if (open.size <= placesAtOnce) return
    const all = [...open]
    // The news that a request has been given up may come a few turns of the event loop after the next request.
    for (let turn = 0; turn < 10; turn++) await turnOfLoop()
    const givenUp = all.filter((response) => response.destroyed && !response.writableFinished)
    if (all.length - givenUp.length > placesAtOnce) tooMany++
  }
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    open.add(response)
    response.once('close', () => open.delete(response))
    void look()
    const { stream: isStream, model } = JSON.parse(Buffer.concat(pieces).toString('utf8'))
    const kinds = ['answer', 'answer', 'answer', 'fail', 'cut', model === impatient ? 'hang' : 'answer'] as const
    const kind = isGood ? 'answer' : kinds[Math.floor(Math.random() * kinds.length)]
    await wait(Math.random() * 20)
    if (response.destroyed || kind === 'hang') return
    if (kind === 'fail') {
      open.delete(response)
      response.writeHead(500).end('no')
      return
    }
    if (isStream) response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of isStream ? events.slice(0, kind === 'cut' ? 3 : -1) : []) {
      response.write(event)
      await wait(1)
    }
    open.delete(response)
    if (kind === 'cut') response.socket?.resetAndDestroy()
    else if (isStream) response.end(events.at(-1))
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion('hello')))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    tooMany: () => tooMany,
    behave: (good) => {
      isGood = good
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** The name of the model that is not waited for long, and of the one whose answer comes, however slow the machine is. */
const impatient = 'impatient'
const patient = 'patient'

/** The models of a service before that upstream, which is asked once. */
export const watchedModels = (url: string) => {
  const once = { adapter: 'openai', baseUrl: url, retries: 0, breaker: { failures: 0 } }
  return { [impatient]: { ...once, timeouts: { firstToken: 60, idle: 60, total: 200 } }, [patient]: once }
}

/** What a caller saw of one request. */
interface Seen {
  readonly status: number | undefined
  /** The request's id, when the whole of a reply that is a success has come. */
  readonly completed: string | undefined
}

async function ask(url: string, key: string, model: string, stream: boolean, signal: AbortSignal): Promise<Seen> {
  try {
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'Good morning.' }] }),
      signal,
    })
    const text = await response.text()
    const isWhole = response.status === 200 && (!stream || text.endsWith('data: [DONE]\n\n'))
    const id = response.headers.get('x-request-id') ?? undefined
    return { status: response.status, completed: isWhole ? id : undefined }
  } catch {
    return { status: undefined, completed: undefined }
  }
}

/**
 * Asks replicas a hundred times at once, again and again, and leaves at random; then as many as there are places.
 * @returns how many answers of each status there were, and whether all places were free at the end
 */
export async function crowd(urls: readonly string[], key: string, rounds: number, upstream: WatchfulUpstream) {
  const statuses = new Map<number | undefined, number>()
  let areFree = true
  for (let round = 0; round < rounds; round++) {
    upstream.behave(false)
    const callers = Array.from({ length: 100 }, async (_, caller) => {
      for (let call = 0; call < 2; call++) {
        const never = new AbortController().signal
        const signal = Math.random() < 0.3 ? AbortSignal.timeout(1 + Math.floor(Math.random() * 60)) : never
        const url = urls[(caller + call) % urls.length] ?? ''
        const { status } = await ask(url, key, caller % 2 === 0 ? impatient : patient, caller % 4 < 2, signal)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    })
    await Promise.all(callers)
    upstream.behave(true)
    for (const url of urls) areFree &&= await allFree(url, key)
  }
  return { statuses, areFree }
}

/** Whether as many requests as there are places pass at once; those whose clients left are given a moment. */
export async function allFree(url: string, key: string): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const never = new AbortController().signal
    const seen = await Promise.all(
      Array.from({ length: placesAtOnce }, (_, n) => ask(url, key, patient, n % 2 === 0, never)),
    )
    if (seen.every(({ completed }) => completed !== undefined)) return true
    await wait(50)
  }
  return false
}

export interface SpendPlan {
  readonly rounds: number
  readonly key: string
  readonly upstream: WatchfulUpstream
  start(): Promise<Killable>
}

/**
 * Asks from as many callers as there are places, kills the service at a random moment, starts it again, and so on.
 * @returns the ids of the requests that callers saw completed, and how many were refused for want of a place
 */
export async function killWhileSpending({ rounds, key, upstream, start }: SpendPlan) {
  const completed = new Set<string>()
  let refused = 0
  upstream.behave(true)
  for (let round = 0; round < rounds; round++) {
    const service = await start()
    let isOver = false
    const never = new AbortController().signal
    const first = Promise.withResolvers<void>()
    const callers = Array.from({ length: placesAtOnce }, async (_, caller) => {
      while (!isOver) {
        const seen = await ask(service.url, key, patient, caller % 2 === 0, never)
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
