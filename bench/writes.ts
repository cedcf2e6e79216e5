import { wrk } from './load.ts'
import { atLeast, type Figure, inTurn, round2 } from './measure.ts'
import { Folders, seededFolder, startJsonServer } from './plants.ts'
import { type Measured, oneCommitEachCommand, startPeer, startService } from './processes.ts'

/*
 * POST /plants to a service with 1,000 plants, which replies when the new plant is on disk. Targets: 0.7 of bare node:http with
 * the same group commit, 5 times the same service with a transaction per request, 60 times json-server. A server that only
 * returns the JSON, and stores nothing, shows the cost of durability.
 */

/** Compares writes of plants. */
export async function benchWrites(): Promise<readonly Figure[]> {
  const folders = new Folders()
  const processes: Measured[] = []
  const load = { body: JSON.stringify({ name: 'Monstera', tag: 'aroid' }) }
  try {
    const seeded = await seededFolder(folders, 1000)
    const bare = await startPeer('bare-writes', folders.make())
    const echo = await startPeer('echo')
    const each = await startService('one each', { DATA_DIR: folders.copy(seeded) }, oneCommitEachCommand)
    const jsonServer = await startJsonServer(folders, 1000)
    const ours = await startService('conservatory', { DATA_DIR: seeded })
    processes.push(bare, echo, each, jsonServer, ours)

    const drive = ({ url }: Measured, duration?: number) => wrk(`${url}/plants`, load, duration)
    for (const process of [bare, echo, each, ours]) await drive(process, 2)
    const found = await inTurn({
      ours: () => drive(ours),
      'bare, durable': () => drive(bare),
      'bare, kept nowhere': () => drive(echo),
      'ours, a transaction each': () => drive(each),
      'json-server': () => drive(jsonServer),
    })
    const names = ['ours', 'bare, durable', 'bare, kept nowhere', 'ours, a transaction each', 'json-server'] as const
    console.table(
      names.map((name) => ({
        'POST /plants': name,
        'requests/s': Math.round(found.middle(name)),
        'ours to it': round2(found.ratio('ours', name)),
      })),
    )
    const figures = [
      atLeast('writes, to bare with the same group commit', 0.7, found.ratio('ours', 'bare, durable')),
      atLeast('writes, to a transaction each', 5, found.ratio('ours', 'ours, a transaction each'), ' times'),
      atLeast('writes, to json-server', 60, found.ratio('ours', 'json-server'), ' times'),
    ]
    const share = round2(found.ratio('ours', 'bare, kept nowhere'))
    console.log(`Of a bare server that only gives the JSON back, our durable writes are ${share}.`)
    return figures
  } finally {
    for (const process of processes) await process.stop()
    folders.remove()
  }
}
