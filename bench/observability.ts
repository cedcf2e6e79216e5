import { createServer } from 'node:http'
import { Metrics } from '../src/metrics/metrics.ts'
import { wrk } from './load.ts'
import { atLeast, atMost, type Figure, inTurn, round2 } from './measure.ts'
import { freePort, startPeer, startService } from './processes.ts'
import { asked, relayEnvironment } from './relay.ts'

/*
 * The cost of observability: a service with traces that is scraped each second, against the same service without traces and
 * scrapes. Each round measures both services in turn, and each ratio compares measurements of one round. Target: at least 0.9.
 * Counting a request for the metrics cannot be switched off and is measured separately. Target: at most 1 µs.
 */

/** Compares the rates of two loads with and without observability: a page of plants, and whole chat completions. */
export async function benchObservability(): Promise<readonly Figure[]> {
  const figures: Figure[] = [atMost('counting one request', 1, microsecondsToCount(), ' µs')]
  let received = 0
  const receiver = createServer((request, response) => {
    request.resume().once('end', () => {
      received++
      response.end('{}')
    })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const bound = receiver.address()
  const receiverPort = typeof bound === 'object' && bound !== null ? bound.port : 0
  const metricsPort = await freePort()
  const upstream = await startPeer('upstream')
  const environment = relayEnvironment(upstream)
  const plain = await startService('unwatched', environment)
  const watched = await startService('watched', {
    ...environment,
    METRICS_PORT: String(metricsPort),
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${receiverPort}`,
  })
  const scraping = setInterval(() => {
    fetch(`http://127.0.0.1:${metricsPort}/metrics`)
      .then((response) => response.arrayBuffer())
      .catch(() => {})
  }, 1000)
  try {
    const compare = async (what: string, drive: (url: string, duration?: number) => Promise<number>) => {
      for (const { url } of [plain, watched]) await drive(url, 2)
      const found = await inTurn({ plain: () => drive(plain.url), watched: () => drive(watched.url) })
      const ratio = found.ratio('watched', 'plain')
      console.table([
        {
          what,
          'unwatched, requests/s': Math.round(found.middle('plain')),
          'watched, requests/s': Math.round(found.middle('watched')),
          ratio: round2(ratio),
        },
      ])
      figures.push(atLeast(`metrics and traces, ${what}, with them to without`, 0.9, ratio))
    }
    await compare('GET /plants?limit=100', (url, duration) => wrk(`${url}/plants?limit=100`, {}, duration))
    const body = asked('whole', false)
    await compare('whole completions', (url, duration) => wrk(`${url}/v1/chat/completions`, { body }, duration))
    if (received === 0) throw new Error('no trace has come')
    return figures
  } finally {
    clearInterval(scraping)
    for (const process of [plain, watched, upstream]) await process.stop()
    receiver.close()
    receiver.closeAllConnections()
  }
}

/** The mean time to count a request, in microseconds. */
function microsecondsToCount(): number {
  const metrics = new Metrics()
  const count = (requests: number) => {
    const began = performance.now()
    for (let request = 0; request < requests; request++) {
      const ended = metrics.started('GET')
      ended(request % 2 ? '/plants' : '/chat/completions', 200, (request % 100) / 1000, '')
    }
    return ((performance.now() - began) / requests) * 1000
  }
  count(100_000)
  return count(1_000_000)
}
