import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { conversation, loreCard } from './compose.ts'
import { type Figure, median, percentile, round2, rounds } from './measure.ts'
import { Folders, randomPlace, seededFolder } from './plants.ts'
import {
  benchKey,
  cpuSeconds,
  type Measured,
  residentMegabytes,
  serviceCommand,
  startPeer,
  startService,
} from './processes.ts'
import { asked } from './relay.ts'
import { type Asking, Caller, type Cost, type Pair, pairsOf } from './slices.ts'

/*
 * Compares this service with another service in the same run: the same code under another Node (OTHER_NODE), or another checkout
 * (OTHER_CHECKOUT is its folder). LOADS=streams drives only the loads whose names match. Both services have the same plants
 * (a million if pages are read) and a card with a thousand lore entries. The CPU time of requests is compared and not their
 * rate, because the rate varies more with the load of the machine. Each load is measured warm; the load "cold" starts new processes,
 * and measures the start and the first 2,000 completions.
 */

type Command = readonly [string, ...string[]]

/** The number of pairs of measurements of each load. */
const pairs = 10
/** The most characters of a failure that are printed. */
const maxErrorLength = 200

/** A load that repeats the same request. */
const same = (path: string, body?: string): Asking => ({ next: () => (body === undefined ? { path } : { path, body }) })

/** A conversation with the card that has a thousand lore entries. */
const withLore = JSON.stringify({
  model: 'whole',
  character: 'Moss',
  messages: [...conversation.slice(-19), conversation[0]],
})

/** A conversation of 61 messages and 30 kB. Every request has the same messages, as the requests of chat programs mostly do. */
const history = Array.from({ length: 61 }, (_none, index) => ({
  role: index % 2 === 0 ? 'user' : 'assistant',
  content: `${index}: ${'The leaves turn towards the window, and the soil dries slowly in winter. '.repeat(7)}`,
}))

/** A chat request with a short message, unless the fields have other messages. */
const chat = (fields: object) =>
  same(
    '/chat/completions',
    JSON.stringify({
      model: 'whole',
      messages: [{ role: 'user', content: 'Hello there, how do I keep a monstera alive?' }],
      ...fields,
    }),
  )

/** A long conversation with a character. */
const longConversation = JSON.stringify({
  model: 'whole',
  character: 'Fern',
  messages: [...conversation, { role: 'user', content: 'And now?' }],
})

/** Uploads of a character. Each upload has another card than the upload before. */
function uploads(): Asking {
  const card = JSON.stringify(loreCard(1000))
  const bodies = [card, `${card} `]
  let sent = 0
  // Only two, because a service refuses large requests of an account if many requests of the account wait.
  return {
    connections: 2,
    next: () => ({ path: '/characters/Fern%20moss', body: bodies[sent++ % 2] ?? card, method: 'PUT' }),
  }
}

const loads: Readonly<Record<string, Asking>> = {
  'GET /plants?limit=100': same('/plants?limit=100'),
  'GET /plants/1000000': same('/plants/1000000'),
  'pages from random places': { next: () => ({ path: `/plants?limit=100&after=${randomPlace()}` }) },
  'POST /plants': same('/plants', JSON.stringify({ name: 'Monstera', tag: 'aroid' })),
  'completion, Bolt': chat({ character: 'Bolt' }),
  'completion, Fern, contextWindow': chat({ model: 'window', character: 'Fern' }),
  'completion, no character': chat({}),
  'completion, Bolt, 30 kB, contextWindow': chat({ model: 'window', character: 'Bolt', messages: history }),
  'completion with lore': same('/chat/completions', withLore),
  'stream of 100 events, Bolt': chat({ character: 'Bolt', stream: true }),
  'understudy, Fern': chat({ model: 'understudy', character: 'Fern' }),
  'understudy, Fern, streamed': chat({ model: 'understudy', character: 'Fern', stream: true }),
  'prompt receipt': same('/chat/prompt', asked('whole', false)),
  'receipt of 201 messages': same('/chat/prompt', longConversation),
  'upload of a card with 1,000 entries': uploads(),
}

/** The content of `models.json`: a model without a context window, one with it, and the understudy. */
function modelsAt(upstream: Measured): string {
  const whole = { adapter: 'openai', baseUrl: `${upstream.url}/v1`, apiKey: 'unused', model: 'bench' }
  const window = { ...whole, contextWindow: 128_000 }
  return JSON.stringify({ default: 'whole', models: { whole, window, understudy: { adapter: 'understudy' } } })
}

/** Compares two versions of Node. There is no target; docs/decisions/0022-one-launcher.md uses the figures. */
export async function benchRuntimes(): Promise<readonly Figure[]> {
  const other = process.env['OTHER_NODE']
  const [, ...main] = serviceCommand
  return other === undefined ? nothingNamed('OTHER_NODE') : beside([other, ...main])
}

/** Compares two versions of the service, to measure the cost of a change. */
export async function benchVersions(): Promise<readonly Figure[]> {
  const other = process.env['OTHER_CHECKOUT']
  return other === undefined
    ? nothingNamed('OTHER_CHECKOUT')
    : beside([process.execPath, join(other, 'src', 'main.ts')])
}

function nothingNamed(variable: string): readonly Figure[] {
  console.log(`${variable} names no other service: nothing is compared.`)
  return []
}

async function beside(command: Command): Promise<readonly Figure[]> {
  const folders = new Folders()
  const processes: Measured[] = []
  const keep = (process: Measured) => {
    processes.push(process)
    return process
  }
  try {
    const models = modelsAt(keep(await startPeer('upstream')))
    const wanted = new RegExp(process.env['LOADS'] ?? '')
    const driven = Object.entries(loads).filter(([name]) => wanted.test(name))
    const hasPages = driven.some(([name]) => name.includes('pages'))
    // Each service makes its own schema, because an older version refuses the schema of a newer version.
    const start = async (name: string, by: Command) => {
      const folder = await seededFolder(folders, hasPages ? 1_000_000 : 1000, by)
      writeFileSync(join(folder, 'models.json'), models)
      return keep(await startService(name, { DATA_DIR: folder, LOG_LEVEL: 'info' }, by))
    }
    if (driven.length > 0) {
      const here = await start('this', serviceCommand)
      const other = await start('other', command)
      for (const service of [here, other]) await addCard(service)
      for (const [load, asking] of driven) console.table([{ load, ...(await compared(here, other, asking)) }])
      console.table([here, other].map(({ name, pid }) => ({ service: name, 'MB resident': residentMegabytes(pid) })))
    }
    if (wanted.test('cold')) console.table(await coldBeside(command, folders, models))
    return []
  } finally {
    for (const process of processes.toReversed()) await process.stop()
    folders.remove()
  }
}

/** The figures of a new process. */
interface Cold {
  readonly 'start to /readyz, ms': number
  readonly 'first completion, ms': number
  readonly 'first 2,000 completions, CPU µs each': number
  readonly 'MB resident after them': number
}

/** Starts both services in turn, and compares their first requests. @returns medians of the rounds */
async function coldBeside(command: Command, folders: Folders, models: string): Promise<readonly object[]> {
  const found: { readonly here: Cold; readonly other: Cold }[] = []
  for (let round = 0; round < rounds; round++) {
    found.push({
      here: await coldOf(serviceCommand, folders.make(), models),
      other: await coldOf(command, folders.make(), models),
    })
  }
  const names = Object.keys(found[0]?.here ?? {}) as readonly (keyof Cold)[]
  return names.map((name) => ({
    cold: name,
    this: round2(median(found.map(({ here }) => here[name]))),
    other: round2(median(found.map(({ other }) => other[name]))),
    'this to other': round2(median(found.map(({ here, other }) => here[name] / other[name]))),
  }))
}

async function coldOf(command: Command, folder: string, models: string): Promise<Cold> {
  writeFileSync(join(folder, 'models.json'), models)
  const began = performance.now()
  const service = await startService('cold', { DATA_DIR: folder, LOG_LEVEL: 'info' }, command)
  try {
    const ready = performance.now()
    const { path, body } = chat({ model: 'window', character: 'Fern' }).next()
    await send(service, path, body)
    const answered = performance.now()
    const before = cpuSeconds(service.pid)
    for (let sent = 0; sent < 2000; sent += 16) {
      await Promise.all(Array.from({ length: 16 }, () => send(service, path, body)))
    }
    return {
      'start to /readyz, ms': ready - began,
      'first completion, ms': answered - ready,
      'first 2,000 completions, CPU µs each': ((cpuSeconds(service.pid) - before) / 2000) * 1e6,
      'MB resident after them': residentMegabytes(service.pid),
    }
  } finally {
    await service.stop()
  }
}

/** Sends a request, a POST if it has a body. @throws Error for any status but a success */
async function send({ url }: Measured, path: string, body?: string): Promise<void> {
  const headers = { authorization: `Bearer ${benchKey}`, 'content-type': 'application/json' }
  const reply = await fetch(url + path, { headers, ...(body === undefined ? {} : { method: 'POST', body }) })
  if (!reply.ok) throw new Error(`${url} answered ${reply.status}: ${await reply.text()}`)
  await reply.arrayBuffer()
}

/** Uploads the character that `withLore` names, which has a thousand lore entries. */
async function addCard(service: Measured): Promise<void> {
  await send(service, '/characters', JSON.stringify(loreCard(1000)))
}

/** The cost of a request in both services, and the difference of the CPU time in percent: its median over all pairs, and its quartiles. */
async function compared(here: Measured, other: Measured, asking: Asking): Promise<object> {
  const callers = [new Caller(here, asking), new Caller(other, asking)] as const
  let found: readonly Pair[]
  try {
    found = await pairsOf(...callers, pairs)
  } catch (error) {
    // An older version may refuse a load. The other loads are measured nevertheless.
    return { failed: error instanceof Error ? error.message.slice(0, maxErrorLength) : String(error) }
  } finally {
    for (const caller of callers) caller.close()
  }
  const more = found.map((pair) => (pair.here.cpuMicroseconds / pair.other.cpuMicroseconds - 1) * 100)
  const tenth = (value: number) => Math.round(value * 10) / 10
  const middle = (figure: keyof Cost, of: keyof Pair) => tenth(median(found.map((pair) => pair[of][figure])))
  return {
    'this, CPU µs': middle('cpuMicroseconds', 'here'),
    'other, CPU µs': middle('cpuMicroseconds', 'other'),
    'CPU, this to other': round2(1 + median(more) / 100),
    quartiles: `${tenth(percentile(more, 25))} to ${tenth(percentile(more, 75))} %`,
    'this, p99 ms': middle('p99Milliseconds', 'here'),
    'other, p99 ms': middle('p99Milliseconds', 'other'),
  }
}
