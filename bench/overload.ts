import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { wrk } from './load.ts'
import { atLeast, atMost, type Figure, percentile } from './measure.ts'
import { benchKey, startService } from './processes.ts'

/*
 * The service under three times its capacity. The requests are whole completions of long conversations by the understudy, which
 * keep one core busy. First, 8 callers that wait for their replies measure the peak rate. Then a separate process sends
 * requests whether or not earlier ones are answered: at a quarter of the peak; at three times the peak for ten seconds
 * (SECONDS); and, after a pause of two seconds, at a quarter again. The latency of a request counts from its scheduled moment.
 * Targets: a goodput of at least 0.8 of the peak; a p99 of accepted requests of at most 250 ms; after the pause a p99 of at most
 * twice the p99 before; and no reply other than 200 and 503.
 */

const seconds = Number(process.env['SECONDS'] ?? 10)
const calmSeconds = 3
const connections = 1000
const caller = fileURLToPath(new URL('./peers/caller.ts', import.meta.url))

const sentence = 'The leaves of my old fern turn yellow from below, and I water it every other day with rain. '
const body = JSON.stringify({
  model: 'understudy',
  character: 'Fern',
  messages: Array.from({ length: 121 }, (_none, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: `${index}: ${sentence.repeat(3)}`,
  })),
})
const request = [
  'POST /chat/completions HTTP/1.1',
  'Host: 127.0.0.1',
  `Authorization: Bearer ${benchKey}`,
  'Content-Type: application/json',
  `Content-Length: ${Buffer.byteLength(body)}`,
  '',
  body,
].join('\r\n')

interface Offered {
  readonly goodput: number
  readonly p99: number
  readonly refusedP99: number
  readonly refused: number
  readonly failed: number
}

async function offer(port: number, rate: number, duration: number): Promise<Offered> {
  const child = spawn(process.execPath, [caller, port, rate, duration, connections].map(String), {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(request)
  let text = ''
  for await (const piece of child.stdout) text += piece
  const results: (readonly [due: number, took: number, status: number])[] = JSON.parse(text)
  const times = (wanted: number) => results.filter(([, , status]) => status === wanted).map(([, took]) => took)
  // A reply that comes after the duration counts for the latency, but not for the goodput.
  const inTime = results.filter(([due, took, status]) => status === 200 && due + took <= duration * 1000)
  return {
    goodput: inTime.length / duration,
    p99: percentile(times(200), 99),
    refusedP99: percentile(times(503), 99),
    refused: times(503).length / results.length,
    failed: results.filter(([, , status]) => status !== 200 && status !== 503).length,
  }
}

/** Sends a quarter of the peak rate, three times the peak rate and a quarter again, and reports the results. */
export async function benchOverload(): Promise<readonly Figure[]> {
  const service = await startService('conservatory')
  try {
    const url = `http://127.0.0.1:${service.port}/chat/completions`
    const load = { body, connections: 8 }
    await wrk(url, load, 2)
    const peak = await wrk(url, load, 4)
    const before = await offer(service.port, peak / 4, calmSeconds)
    const during = await offer(service.port, peak * 3, seconds)
    await new Promise((resolve) => setTimeout(resolve, 2000))
    const after = await offer(service.port, peak / 4, calmSeconds)

    const row = (what: string, rate: number, found: Offered) => ({
      what,
      'offered/s': Math.round(rate),
      'answered/s': Math.round(found.goodput),
      'of the peak': Math.round((found.goodput / peak) * 100) / 100,
      'p99, ms': Math.round(found.p99),
      'refused, %': Math.round(found.refused * 100),
      'p99 of refusals, ms': Math.round(found.refusedP99),
      failed: found.failed,
    })
    console.log(`peak ${Math.round(peak)} requests/s of ${body.length} bytes`)
    console.table([
      row('a quarter of the peak', peak / 4, before),
      row(`three times the peak, ${seconds} s`, peak * 3, during),
      row('a quarter again, 2 s later', peak / 4, after),
    ])
    return [
      atLeast('overload, goodput of the peak', 0.8, during.goodput / peak),
      atMost('overload, p99 of accepted requests', 250, during.p99, ' ms'),
      atMost('overload, p99 two seconds later, to before', 2, after.p99 / before.p99, ' times'),
      atMost('overload, neither answered nor refused', 0, before.failed + during.failed + after.failed),
    ]
  } finally {
    await service.stop()
  }
}
