import { wrk } from './load.ts'
import { atLeast, type Figure, inTurn, round2 } from './measure.ts'
import { benchKey, startPeer, startService } from './processes.ts'
import { asked, relayEnvironment } from './relay.ts'

/*
 * What limits and the ledger cost: the service with every limit on, all so high that none is reached, beside the same
 * service with none. Each round measures both in turn; the ratio is within a round. Target: at least 0.9.
 */

/** Every limit of a request, out of reach. */
const all = ['requests_per_minute', 'tokens_per_minute', 'chat_at_once', 'tokens_per_day', 'tokens_per_month']
  .map((name) => `${name}=1000000000000`)
  .join(',')

/** Compares requests per second, of a page of plants and of whole chat completions. */
export async function benchLimits(): Promise<readonly Figure[]> {
  const upstream = await startPeer('upstream')
  const environment = relayEnvironment(upstream)
  const none = await startService('no limits', environment)
  const limited = await startService('all limits', { ...environment, LIMITS: all })
  try {
    const figures: Figure[] = []
    const compare = async (what: string, drive: (url: string, duration?: number) => Promise<number>) => {
      for (const { url } of [none, limited]) await drive(url, 2)
      const found = await inTurn({ none: () => drive(none.url), limited: () => drive(limited.url) })
      const ratio = found.ratio('limited', 'none')
      console.table([
        {
          what,
          'no limits, requests/s': Math.round(found.middle('none')),
          'all limits, requests/s': Math.round(found.middle('limited')),
          ratio: round2(ratio),
        },
      ])
      figures.push(atLeast(`limits, ${what}, all limits to none`, 0.9, ratio))
    }
    for (const { url } of [none, limited]) await addPlants(url)
    await compare('GET /plants?limit=100', (url, duration) => wrk(`${url}/plants?limit=100`, {}, duration))
    const body = asked('whole', false)
    await compare('whole completions', (url, duration) => wrk(`${url}/v1/chat/completions`, { body }, duration))
    return figures
  } finally {
    for (const process of [none, limited, upstream]) await process.stop()
  }
}

async function addPlants(url: string): Promise<void> {
  const headers = { authorization: `Bearer ${benchKey}`, 'content-type': 'application/json' }
  for (let count = 0; count < 120; count++) {
    const response = await fetch(`${url}/plants`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ name: `Plant ${count}`, tag: 'fern' }),
    })
    if (!response.ok) throw new Error(`a plant was answered with ${response.status}`)
    await response.arrayBuffer()
  }
}
