import { startPostgres } from '../test/support/postgres.ts'
import { wrk } from './load.ts'
import { atLeast, type Figure, inTurn, round2 } from './measure.ts'
import { benchKey, startPeer, startService } from './processes.ts'
import { asked, relayEnvironment } from './relay.ts'

/*
 * The cost of limits and the ledger: a service with every limit, each too high to be reached, against the same service without
 * limits. Each round measures both services in turn, and each ratio compares measurements of one round. Target: at least 0.9.
 * Over PostgreSQL replicas count together: most requests of plants are counted in advance, but a chat request waits for four
 * commits on disk. The model answers immediately, so the commits take most of the time of a completion. Targets over PostgreSQL:
 * at least 0.8 for pages and 0.3 for completions.
 */

/** The setting LIMITS with every limit, each too high to be reached. */
const all = ['requests_per_minute', 'tokens_per_minute', 'chat_at_once', 'tokens_per_day', 'tokens_per_month']
  .map((name) => `${name}=1000000000000`)
  .join(',')

/** Compares the rates of two loads with and without limits: a page of plants, and whole chat completions. */
export async function benchLimits(): Promise<readonly Figure[]> {
  const figures = await compareOver('limits', {}, { page: 0.9, chat: 0.9 })
  const server = await startPostgres({ fsync: 'on' })
  try {
    const database = { DATABASE_URL: await server.createDatabase() }
    return [...figures, ...(await compareOver('limits over PostgreSQL', database, { page: 0.8, chat: 0.3 }))]
  } finally {
    await server.stop()
  }
}

async function compareOver(
  name: string,
  database: Readonly<Record<string, string>>,
  target: { readonly page: number; readonly chat: number },
): Promise<readonly Figure[]> {
  const upstream = await startPeer('upstream')
  const environment = { ...relayEnvironment(upstream), ...database }
  const none = await startService('no limits', environment)
  const limited = await startService('all limits', { ...environment, LIMITS: all })
  try {
    const figures: Figure[] = []
    const compare = async (what: string, least: number, drive: (url: string, duration?: number) => Promise<number>) => {
      for (const { url } of [none, limited]) await drive(url, 2)
      const found = await inTurn({ none: () => drive(none.url), limited: () => drive(limited.url) })
      const ratio = found.ratio('limited', 'none')
      console.table([
        {
          what: `${name}: ${what}`,
          'no limits, requests/s': Math.round(found.middle('none')),
          'all limits, requests/s': Math.round(found.middle('limited')),
          ratio: round2(ratio),
        },
      ])
      figures.push(atLeast(`${name}, ${what}, all limits to none`, least, ratio))
    }
    for (const { url } of [none, limited]) await addPlants(url)
    await compare('GET /plants?limit=100', target.page, (url, duration) => wrk(`${url}/plants?limit=100`, {}, duration))
    const body = asked('whole', false)
    await compare('whole completions', target.chat, (url, duration) =>
      wrk(`${url}/v1/chat/completions`, { body }, duration),
    )
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
