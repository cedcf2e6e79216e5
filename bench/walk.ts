import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readConfig } from '../src/config.ts'
import { startService } from '../src/service.ts'
import { atMost, type Figure } from './measure.ts'
import { benchKey } from './processes.ts'

/*
 * The code path of one request after a warm-up: the files of src/ whose functions are called, and the number of these calls, by
 * V8's precise coverage. Loading a module does not count, and neither does the client, which runs in the same process. Timers of
 * the service may run during a request, so the measurement with the fewest calls counts.
 * Targets: 26 files and 80 calls for a new plant, 60 files and 2,000 calls for a streamed completion as Fern.
 */

interface Walk {
  readonly name: string
  readonly path: string
  readonly body: unknown
  readonly maxFiles: number
  readonly maxCalls: number
}

const walks: readonly Walk[] = [
  {
    name: 'a new plant',
    path: '/plants',
    body: { name: 'Monstera' },
    maxFiles: 26,
    maxCalls: 80,
  },
  {
    name: 'a streamed completion as Fern',
    path: '/chat/completions',
    body: {
      model: 'understudy',
      character: 'Fern',
      messages: [{ role: 'user', content: 'Why are my leaves yellow?' }],
      stream: true,
    },
    maxFiles: 60,
    maxCalls: 2000,
  },
]

/** The number of requests before the measurement, and the number of measured requests. */
const warmUps = 30
const followed = 20

const source = new URL('../src/', import.meta.url).href

/** The number of function calls by file of src/. */
type Calls = ReadonlyMap<string, number>

/** Measures `POST /plants` and a streamed completion, and prints their calls by file. */
export async function benchWalk(): Promise<readonly Figure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
  const environment = { PORT: '0', DATA_DIR: folder, BOOTSTRAP_KEY: benchKey, LOG_LEVEL: 'silent' }
  const service = await startService(readConfig(environment))
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  try {
    const figures: Figure[] = []
    for (const walk of walks) {
      for (let sent = 0; sent < warmUps; sent++) await send(service.address, walk, agent)
      const calls = await shortest(session, () => send(service.address, walk, agent))
      print(walk.name, calls)
      figures.push(
        atMost(`files entered by ${walk.name}`, walk.maxFiles, calls.size),
        atMost(`calls made by ${walk.name}`, walk.maxCalls, sum(calls)),
      )
    }
    return figures
  } finally {
    // V8 does not optimize functions while it counts them, and other benchmarks follow.
    await session.post('Profiler.stopPreciseCoverage')
    session.disconnect()
    agent.destroy()
    await service.close()
    rmSync(folder, { recursive: true })
  }
}

/** Sends the request and reads the whole reply. */
async function send(address: string, { path, body }: Walk, agent: Agent): Promise<void> {
  const headers = { authorization: `Bearer ${benchKey}`, 'content-type': 'application/json' }
  const sent = request(address + path, { method: 'POST', headers, agent }).end(JSON.stringify(body))
  const reply = await new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve)
    sent.once('error', reject)
  })
  reply.resume()
  await once(reply, 'end')
  if (reply.statusCode !== 200 && reply.statusCode !== 201) throw new Error(`${path} answers ${reply.statusCode}`)
  // The service does its last work of a request after the client has the reply.
  for (let turn = 0; turn < 3; turn++) await setImmediate()
}

/** Measures a request several times. @returns the calls of the measurement with the fewest calls */
async function shortest(session: Session, go: () => Promise<void>): Promise<Calls> {
  let found: Calls | undefined
  const counts: number[] = []
  for (let round = 0; round < followed; round++) {
    // Reading the counts resets them.
    await session.post('Profiler.takePreciseCoverage')
    await go()
    const calls = await callsOf(session)
    counts.push(sum(calls))
    if (!found || sum(calls) < sum(found)) found = calls
  }
  console.log(`calls in each of ${followed} walks: ${counts.join(' ')}`)
  return found ?? new Map()
}

async function callsOf(session: Session): Promise<Calls> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const calls = new Map<string, number>()
  for (const { url, functions } of result) {
    if (!url.startsWith(source)) continue
    // The function at offset 0 is the module itself, which runs when it is loaded.
    const own = functions.flatMap(({ ranges }) => ranges.slice(0, 1)).filter(({ startOffset }) => startOffset > 0)
    const count = own.reduce((total, range) => total + range.count, 0)
    const file = fileURLToPath(url).slice(fileURLToPath(source).length)
    if (count > 0) calls.set(file, (calls.get(file) ?? 0) + count)
  }
  return calls
}

function sum(calls: Calls): number {
  return [...calls.values()].reduce((total, count) => total + count, 0)
}

function print(name: string, calls: Calls): void {
  console.log(`${name}: ${calls.size} files, ${sum(calls)} calls`)
  console.table(
    Object.fromEntries(
      [...calls].sort(([, one], [, other]) => other - one).map(([file, count]) => [file, { calls: count }]),
    ),
  )
}
