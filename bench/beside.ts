import { join } from 'node:path'
import { conversation, loreCard } from './compose.ts'
import { type Figure, median, percentile, round2 } from './measure.ts'
import { Folders, randomPlace, seededFolder } from './plants.ts'
import { benchKey, type Measured, residentMegabytes, serviceCommand, startPeer, startService } from './processes.ts'
import { asked, relayEnvironment } from './relay.ts'
import { type Asking, Caller, type Pair, pairsOf } from './slices.ts'

/*
 * Compares this service with another service in the same run: the same code under another Node (OTHER_NODE), or another checkout
 * (OTHER_CHECKOUT is its folder). LOADS=streams drives only the loads whose names match. Both services have the same plants
 * (a million if pages are read) and a card with a thousand lore entries. The CPU time of requests is compared and not their
 * rate, because the rate varies more with the load of the machine.
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

/** A long conversation with a character. Every request has the same messages, as the requests of chat programs mostly do. */
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
  'pages from random places': { next: () => ({ path: `/plants?limit=100&after=${randomPlace()}` }) },
  'POST /plants': same('/plants', JSON.stringify({ name: 'Monstera', tag: 'aroid' })),
  'whole completions': same('/chat/completions', asked('whole', false)),
  'completions with lore': same('/chat/completions', withLore),
  'streams of 100 events': same('/chat/completions', asked('burst', true)),
  'understudy, streamed': same('/chat/completions', asked('understudy', true)),
  'prompt receipts': same('/chat/prompt', asked('whole', false)),
  'receipts of 201 messages': same('/chat/prompt', longConversation),
  'uploads of a card with 1,000 entries': uploads(),
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
    const environment = relayEnvironment(keep(await startPeer('upstream')))
    const wanted = new RegExp(process.env['LOADS'] ?? '')
    const driven = Object.entries(loads).filter(([name]) => wanted.test(name))
    const hasPages = driven.some(([name]) => name.includes('pages'))
    // Each service makes its own schema, because an older version refuses the schema of a newer version.
    const start = async (name: string, by: Command) => {
      const folder = await seededFolder(folders, hasPages ? 1_000_000 : 1000, by)
      return keep(await startService(name, { ...environment, DATA_DIR: folder }, by))
    }
    const here = await start('this', serviceCommand)
    const other = await start('other', command)
    for (const service of [here, other]) await addCard(service)
    for (const [load, asking] of driven) console.table([{ load, ...(await compared(here, other, asking)) }])
    console.table([here, other].map(({ name, pid }) => ({ service: name, 'MB resident': residentMegabytes(pid) })))
    return []
  } finally {
    for (const process of processes.toReversed()) await process.stop()
    folders.remove()
  }
}

/** Uploads the character that `withLore` names, which has a thousand lore entries. */
async function addCard({ url }: Measured): Promise<void> {
  const headers = { authorization: `Bearer ${benchKey}`, 'content-type': 'application/json' }
  const reply = await fetch(`${url}/characters`, { method: 'POST', headers, body: JSON.stringify(loreCard(1000)) })
  if (!reply.ok) throw new Error(`${url} answered ${reply.status}: ${await reply.text()}`)
}

/** The CPU time of a request in both services, and the difference in percent: its median over all pairs, and its quartiles. */
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
  const more = found.map((pair) => (pair.here / pair.other - 1) * 100)
  const tenth = (value: number) => Math.round(value * 10) / 10
  return {
    'this, CPU µs': tenth(median(found.map((pair) => pair.here))),
    'other, CPU µs': tenth(median(found.map((pair) => pair.other))),
    'CPU, this to other': round2(1 + median(more) / 100),
    '% more': tenth(median(more)),
    quartiles: `${tenth(percentile(more, 25))} to ${tenth(percentile(more, 75))}`,
  }
}
