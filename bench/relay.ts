import { Agent, request } from 'node:http'
import { wrk } from './load.ts'
import { machineLine, median } from './measure.ts'
import { benchKey, cpuSeconds, type Measured, residentMegabytes, startPeer, startService } from './processes.ts'

/*
 * What relaying costs beside a bare node:http and undici relay that only pipes; the service checks the key, composes a
 * character's prompt and watches the stream. Each round measures all of them in turn; ratios are within a round.
 * Targets: whole and streamed at least 0.75 with a silent log, at least 0.6 with the default one; 500 paced streams at
 * most 1.4 times the CPU seconds per million events; of 2,000 none fails, with at most 150 MB more memory.
 */

const rounds = Number(process.env['ROUNDS'] ?? 5)
const seconds = Number(process.env['SECONDS'] ?? 4)

const asked = (model: string, stream: boolean) =>
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

const upstream = await startPeer('upstream')
const upstreamUrl = `http://127.0.0.1:${upstream.port}`
const environment = { OPENAI_BASE_URL: `${upstreamUrl}/v1`, OPENAI_API_KEY: 'unused' }
const bare = await startPeer('bare-relay', upstreamUrl)
const silent = await startService('conservatory', environment)
const logging = await startService('conservatory, default log', { ...environment, LOG_LEVEL: 'info' })

console.log(`${machineLine()}; medians of ${rounds} rounds of ${seconds} s`)

async function compare(what: string, model: string, stream: boolean): Promise<Record<string, unknown>> {
  const body = asked(model, stream)
  const path = (relay: Measured) => `http://127.0.0.1:${relay.port}/v1/chat/completions`
  for (const relay of [bare, silent, logging]) await wrk(path(relay), 2, body)
  const figures: { bare: number; silent: number; logging: number }[] = []
  for (let round = 0; round < rounds; round++) {
    const of = async (relay: Measured) => {
      const { requestsPerSecond, failures } = await wrk(path(relay), seconds, body)
      if (failures > 0) throw new Error(`${relay.name} failed ${failures} times`)
      return requestsPerSecond
    }
    figures.push({ bare: await of(bare), silent: await of(silent), logging: await of(logging) })
  }
  return {
    what,
    'bare, requests/s': Math.round(median(figures.map((figure) => figure.bare))),
    'ours, requests/s': Math.round(median(figures.map((figure) => figure.silent))),
    ratio: round2(median(figures.map((figure) => figure.silent / figure.bare))),
    'ratio, default log': round2(median(figures.map((figure) => figure.logging / figure.bare))),
  }
}

/** Opens paced streams, and tells what they cost the relay. */
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

console.table([
  await compare('whole completions', 'whole', false),
  await compare('streams of 100 events', 'burst', true),
])

const costs: { bare: number; ours: number }[] = []
for (let round = 0; round < Math.min(rounds, 3); round++) {
  costs.push({ bare: (await paced(bare, 500, 8)).cpuPerMillion, ours: (await paced(silent, 500, 8)).cpuPerMillion })
}
const many = { bare: await paced(bare, 2000, 8), ours: await paced(silent, 2000, 8) }
console.table([
  {
    what: '500 paced streams',
    'bare, CPU s per million events': round2(median(costs.map((cost) => cost.bare))),
    'ours, CPU s per million events': round2(median(costs.map((cost) => cost.ours))),
    ratio: round2(median(costs.map((cost) => cost.ours / cost.bare))),
  },
])
console.table([
  {
    what: '2,000 paced streams',
    'bare, failed': many.bare.failed,
    'ours, failed': many.ours.failed,
    'bare, RSS MB': Math.round(many.bare.megabytes),
    'ours, RSS MB': Math.round(many.ours.megabytes),
    'MB more': Math.round(many.ours.megabytes - many.bare.megabytes),
  },
])

for (const process of [bare, silent, logging, upstream]) await process.stop()

function round2(value: number): number {
  return Math.round(value * 100) / 100
}
