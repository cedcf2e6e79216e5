import { Agent, request } from 'node:http'
import { wrk } from './load.ts'
import { atLeast, atMost, type Figure, inTurn, median, round2, rounds } from './measure.ts'
import { benchKey, cpuSeconds, type Measured, residentMegabytes, startPeer, startService } from './processes.ts'

/*
 * The cost of relaying completions, against a bare relay with node:http and undici that only pipes. The service checks the key,
 * composes a character's prompt and meters the stream. Each round measures all relays in turn; a ratio compares one round.
 * A relay with Fastify that only puts a prompt before the messages shows the best possible figure.
 * Targets: for whole and for streamed completions, at least 0.75 of the bare rate with a silent log, and at least 0.6 with the
 * default log; for 500 paced streams, at most 1.4 times the CPU time per event; of 2,000 paced streams none fails, and they take
 * at most 150 MB more memory.
 */

/** The body of a request to the relays, with a character and a short conversation. */
export const asked = (model: string, stream: boolean) =>
  JSON.stringify({
    model,
    character: 'Fern',
    messages: [
      { role: 'user', content: 'Good morning. I have brought you a patient.' },
      { role: 'assistant', content: 'Put it on the bench, out of the draught, and tell me its name.' },
      { role: 'user', content: 'Its leaves are turning yellow from below. What should I look at first?' },
    ],
    ...(stream ? { stream: true } : {}),
  })

/** The settings of a service whose upstream is this peer. */
export const relayEnvironment = (upstream: Measured) => ({
  OPENAI_BASE_URL: `${upstream.url}/v1`,
  OPENAI_API_KEY: 'unused',
})

/** Seconds of warm-up. On a slow machine Node compiles for up to 8 s, which does not matter for a relay that runs for months. */
const warmUp = 8

interface Relays {
  readonly bare: Measured
  readonly least: Measured
  readonly silent: Measured
  readonly logging: Measured
}

/** Compares the relays: requests per second, then the cost of many long streams. */
export async function benchRelay(): Promise<readonly Figure[]> {
  const upstream = await startPeer('upstream')
  const environment = relayEnvironment(upstream)
  const relays: Relays = {
    bare: await startPeer('bare-relay', upstream.url),
    least: await startPeer('fastify-relay', upstream.url),
    silent: await startService('conservatory', environment),
    logging: await startService('conservatory, default log', { ...environment, LOG_LEVEL: 'info' }),
  }
  try {
    return [
      ...(await compare('whole completions', 'whole', false, relays)),
      ...(await compare('streams of 100 events', 'burst', true, relays)),
      ...(await comparePaced(relays)),
    ]
  } finally {
    for (const process of [...Object.values(relays), upstream]) await process.stop()
  }
}

async function compare(
  what: string,
  model: string,
  stream: boolean,
  { bare, least, silent, logging }: Relays,
): Promise<readonly Figure[]> {
  const body = asked(model, stream)
  const drive = (relay: Measured, duration?: number) => wrk(`${relay.url}/v1/chat/completions`, { body }, duration)
  for (const relay of [bare, least, silent, logging]) await drive(relay, warmUp)
  const found = await inTurn({
    bare: () => drive(bare),
    least: () => drive(least),
    silent: () => drive(silent),
    logging: () => drive(logging),
  })
  const ratio = found.ratio('silent', 'bare')
  const ratioLogging = found.ratio('logging', 'bare')
  console.table([
    {
      what,
      'bare, requests/s': Math.round(found.middle('bare')),
      'ours, requests/s': Math.round(found.middle('silent')),
      ratio: round2(ratio),
      'ratio, default log': round2(ratioLogging),
      'ratio of the least with Fastify': round2(found.ratio('least', 'bare')),
    },
  ])
  return [
    atLeast(`relay, ${what}, to bare`, 0.75, ratio),
    atLeast(`relay, ${what}, default log, to bare`, 0.6, ratioLogging),
  ]
}

/** Opens paced streams, and measures their cost for the relay. */
async function paced(relay: Measured, streams: number, duration: number) {
  const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY })
  const body = asked(`paced-${duration}`, true)
  const before = cpuSeconds(relay.pid)
  let highest = 0
  const watch = setInterval(() => {
    highest = Math.max(highest, residentMegabytes(relay.pid))
  }, 250)
  const one = () =>
    new Promise<{ events: number; isComplete: boolean }>((resolve) => {
      let events = 0
      let tail = ''
      const call = request(
        {
          agent,
          host: '127.0.0.1',
          port: relay.port,
          path: '/v1/chat/completions',
          method: 'POST',
          headers: {
            authorization: `Bearer ${benchKey}`,
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
          },
        },
        (response) => {
          response.setEncoding('latin1')
          response.on('data', (text: string) => {
            for (let at = text.indexOf('data: '); at !== -1; at = text.indexOf('data: ', at + 6)) events++
            tail = text
          })
          response.on('end', () => resolve({ events, isComplete: tail.endsWith('data: [DONE]\n\n') }))
          response.on('error', () => resolve({ events, isComplete: false }))
        },
      )
      call.on('error', () => resolve({ events, isComplete: false }))
      call.end(body)
    })
  const results = await Promise.all(Array.from({ length: streams }, one))
  clearInterval(watch)
  const events = results.reduce((sum, result) => sum + result.events, 0)
  return {
    cpuPerMillion: ((cpuSeconds(relay.pid) - before) / events) * 1e6,
    failed: results.filter(({ isComplete }) => !isComplete).length,
    megabytes: highest,
  }
}

async function comparePaced({ bare, silent }: Relays): Promise<readonly Figure[]> {
  const costs: { bare: number; ours: number }[] = []
  for (let round = 0; round < Math.min(rounds, 3); round++) {
    costs.push({ bare: (await paced(bare, 500, 8)).cpuPerMillion, ours: (await paced(silent, 500, 8)).cpuPerMillion })
  }
  const ratio = median(costs.map((cost) => cost.ours / cost.bare))
  console.table([
    {
      what: '500 paced streams',
      'bare, CPU s per million events': round2(median(costs.map((cost) => cost.bare))),
      'ours, CPU s per million events': round2(median(costs.map((cost) => cost.ours))),
      ratio: round2(ratio),
    },
  ])
  const many = { bare: await paced(bare, 2000, 8), ours: await paced(silent, 2000, 8) }
  const more = many.ours.megabytes - many.bare.megabytes
  console.table([
    {
      what: '2,000 paced streams',
      'bare, failed': many.bare.failed,
      'ours, failed': many.ours.failed,
      'bare, RSS MB': Math.round(many.bare.megabytes),
      'ours, RSS MB': Math.round(many.ours.megabytes),
      'MB more': Math.round(more),
    },
  ])
  return [
    atMost('relay, 500 paced streams, CPU time to bare', 1.4, ratio, ' times'),
    atMost('relay, 2,000 paced streams, failed', 0, many.ours.failed),
    atMost('relay, 2,000 paced streams, memory above bare', 150, more, ' MB'),
  ]
}
