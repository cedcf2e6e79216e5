import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { wrk } from './load.ts'
import { atLeast, type Figure, inTurn, round2 } from './measure.ts'
import { bytesOf, everyTenthWrites, Folders, randomPlaces, seededFolder, startJsonServer } from './plants.ts'
import { type Measured, startPeer, startService } from './processes.ts'

/*
 * Pages of 100 plants out of 1,000 and out of 1,000,000, against bare node:http that sends the same bytes and checks nothing.
 * Targets, in proportion to the bare server: 0.75; with the default log 0.55; if every tenth request is a write 0.4; for random
 * pages that are not cached 0.35. The rate of random pages with a million plants is at least 0.85 of the rate with a thousand.
 * Against json-server: 8 times its rate.
 */

/** Compares pages of plants. */
export async function benchReads(): Promise<readonly Figure[]> {
  const folders = new Folders()
  const processes: Measured[] = []
  const keep = (process: Measured) => {
    processes.push(process)
    return process
  }
  const path = '/plants?limit=100'
  try {
    const millionFolder = await seededFolder(folders, 1_000_000)
    const loggingFolder = folders.copy(millionFolder)
    const writtenFolder = folders.copy(millionFolder)
    const thousand = keep(await startService('1,000', { DATA_DIR: await seededFolder(folders, 1000) }))
    const million = keep(await startService('1,000,000', { DATA_DIR: millionFolder }))
    const logging = keep(await startService('default log', { DATA_DIR: loggingFolder, LOG_LEVEL: 'info' }))
    const written = keep(await startService('written to', { DATA_DIR: writtenFolder }))
    const jsonServer = keep(await startJsonServer(folders, 1000))
    const body = join(folders.make(), 'body.json')
    writeFileSync(body, await bytesOf(million.url + path))
    const bare = keep(await startPeer('bare-http', body))

    for (const { url } of [bare, thousand, million, logging, written]) await wrk(url + path, {}, 2)
    for (const { url } of [thousand, million]) await wrk(url, { script: randomPlaces() }, 2)
    await wrk(written.url + path, { script: everyTenthWrites }, 2)
    await wrk(`${jsonServer.url}/plants?_limit=100`, {}, 2)
    const found = await inTurn({
      'bare node:http': () => wrk(bare.url + path),
      '1,000 plants': () => wrk(thousand.url + path),
      '1,000,000 plants': () => wrk(million.url + path),
      '1,000,000, default log': () => wrk(logging.url + path),
      '1,000,000, every tenth a write': () => wrk(written.url + path, { script: everyTenthWrites }),
      '1,000, random places': () => wrk(thousand.url, { script: randomPlaces() }),
      '1,000,000, random places': () => wrk(million.url, { script: randomPlaces() }),
      'json-server, 1,000': () => wrk(`${jsonServer.url}/plants?_limit=100`),
    })
    const names = [
      'bare node:http',
      '1,000 plants',
      '1,000,000 plants',
      '1,000,000, default log',
      '1,000,000, every tenth a write',
      '1,000, random places',
      '1,000,000, random places',
      'json-server, 1,000',
    ] as const
    console.table(
      names.map((name) => ({
        'GET /plants?limit=100': name,
        'requests/s': Math.round(found.middle(name)),
        'to bare': round2(found.ratio(name, 'bare node:http')),
      })),
    )
    const toBare = (name: (typeof names)[number], target: number) =>
      atLeast(`reads, ${name}, to bare`, target, found.ratio(name, 'bare node:http'))
    return [
      toBare('1,000 plants', 0.75),
      toBare('1,000,000 plants', 0.75),
      toBare('1,000,000, default log', 0.55),
      toBare('1,000,000, every tenth a write', 0.4),
      toBare('1,000, random places', 0.35),
      toBare('1,000,000, random places', 0.35),
      atLeast(
        'reads, random places, 1,000,000 to 1,000',
        0.85,
        found.ratio('1,000,000, random places', '1,000, random places'),
      ),
      atLeast('reads, 1,000 plants, to json-server', 8, found.ratio('1,000 plants', 'json-server, 1,000'), ' times'),
    ]
  } finally {
    for (const process of processes) await process.stop()
    folders.remove()
  }
}
