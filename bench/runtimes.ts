import { wrk } from './load.ts'
import { type Figure, inTurn, round2 } from './measure.ts'
import { Folders, seededFolder } from './plants.ts'
import { type Measured, residentMegabytes, serviceCommand, startPeer, startService } from './processes.ts'
import { asked, relayEnvironment } from './relay.ts'

/*
 * The service under another Node, which OTHER_NODE names, beside the one that runs this: reads, writes, and whole completions through
 * a relay. There is no target: docs/decisions/0022-one-launcher.md says what was chosen for these figures.
 */

/** Compares two versions of Node. */
export async function benchRuntimes(): Promise<readonly Figure[]> {
  const other = process.env['OTHER_NODE']
  if (other === undefined) {
    console.log('OTHER_NODE names no other Node: nothing is compared.')
    return []
  }
  const folders = new Folders()
  const upstream = await startPeer('upstream')
  const [, ...main] = serviceCommand
  const seeded = await seededFolder(folders, 1000)
  const start = async (name: string, node: string): Promise<Measured> =>
    startService(name, { DATA_DIR: folders.copy(seeded), ...relayEnvironment(upstream) }, [node, ...main])
  const both = [await start('this', process.execPath), await start('other', other)] as const
  const plant = { body: JSON.stringify({ name: 'Monstera', tag: 'aroid' }) }
  const loads = {
    'GET /plants?limit=100': ({ url }: Measured, duration?: number) => wrk(`${url}/plants?limit=100`, {}, duration),
    'POST /plants': ({ url }: Measured, duration?: number) => wrk(`${url}/plants`, plant, duration),
    'whole completions': ({ url }: Measured, duration?: number) =>
      wrk(`${url}/chat/completions`, { body: asked('whole', false) }, duration),
  }
  try {
    const rows: object[] = []
    for (const [name, drive] of Object.entries(loads)) {
      for (const service of both) await drive(service, 8)
      const found = await inTurn({ this: () => drive(both[0]), other: () => drive(both[1]) })
      rows.push({
        load: name,
        [process.version]: Math.round(found.middle('this')),
        [other]: Math.round(found.middle('other')),
        'other to this': round2(found.ratio('other', 'this')),
      })
    }
    console.table(rows)
    console.table(both.map((service) => ({ node: service.name, 'MB resident': residentMegabytes(service.pid) })))
    return []
  } finally {
    for (const service of [...both, upstream]) await service.stop()
    folders.remove()
  }
}
