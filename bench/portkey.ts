import { wrk } from './load.ts'
import { atLeast, type Figure, inTurn, round2 } from './measure.ts'
import { startPackage, startPeer, startService } from './processes.ts'
import { asked, relayEnvironment } from './relay.ts'

/*
 * Whole completions of the service against those of Portkey's AI gateway, started as in its README, in front of the same
 * upstream. Headers of a request name the gateway's upstream. The gateway checks no key of its own, and sends `character` on
 * unchanged. Target: at least 6 times the gateway's rate.
 */

/** Compares the service with Portkey's gateway. */
export async function benchPortkey(): Promise<readonly Figure[]> {
  const upstream = await startPeer('upstream')
  const ours = await startService('conservatory', relayEnvironment(upstream))
  const gateway = await startPackage('portkey', '@portkey-ai/gateway/build/start-server.js', (port) => [
    `--port=${port}`,
    '--headless',
  ])
  const body = asked('whole', false)
  const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${upstream.url}/v1` }
  const driveOurs = (duration?: number) => wrk(`${ours.url}/v1/chat/completions`, { body }, duration)
  const driveGateway = (duration?: number) => wrk(`${gateway.url}/v1/chat/completions`, { body, headers }, duration)
  try {
    await driveOurs(2)
    await driveGateway(2)
    const found = await inTurn({ ours: () => driveOurs(), gateway: () => driveGateway() })
    const ratio = found.ratio('ours', 'gateway')
    console.table([
      {
        what: 'whole completions',
        'Portkey, requests/s': Math.round(found.middle('gateway')),
        'ours, requests/s': Math.round(found.middle('ours')),
        ratio: round2(ratio),
      },
    ])
    return [atLeast("relay, whole completions, to Portkey's gateway", 6, ratio, ' times')]
  } finally {
    for (const process of [ours, gateway, upstream]) await process.stop()
  }
}
