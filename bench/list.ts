import { request } from 'node:http'
import { atLeast, atMost, type Figure, inTurn, percentile, round2 } from './measure.ts'
import { databasePath, Folders, seededFolder } from './plants.ts'
import { benchKey, type Measured, residentMegabytes, startPeer, startService } from './processes.ts'

/*
 * All 1,000,000 plants in one reply, against bare node:http that writes the rows of a better-sqlite3 iterator; and the effect
 * of such a list on other requests. Targets: at least half of the bare throughput; at most 60 MB more memory; during a list, a
 * small read on another connection takes less than 50 ms at the 99th percentile, and a write is answered.
 */

/** Compares lists of a million plants. */
export async function benchList(): Promise<readonly Figure[]> {
  const folders = new Folders()
  const processes: Measured[] = []
  try {
    const folder = await seededFolder(folders, 1_000_000)
    const ours = await startService('conservatory', { DATA_DIR: folder })
    const bare = await startPeer('bare-list', databasePath(folder))
    processes.push(ours, bare)
    // Warms the service up: it reads 300 different pages before the long list.
    for (let count = 0; count < 300; count++) await ask(ours, `/plants?limit=${500 + count}`)
    const warm = residentMegabytes(ours.pid)

    const others = new Others(ours)
    let bytes = 0
    const found = await inTurn({
      bare: async () => {
        const start = performance.now()
        bytes = await ask(bare, '/plants')
        return bytes / 1000 / (performance.now() - start)
      },
      ours: async () => {
        const start = performance.now()
        const sent = await ask(ours, '/plants')
        if (sent !== bytes) throw new Error(`the lists differ: ${sent} and ${bytes} bytes`)
        return sent / 1000 / (performance.now() - start)
      },
    })
    for (let list = 0; list < 3; list++) await others.whileListing()
    const p99 = percentile(others.reads, 99)
    const growth = others.highest - warm
    console.table([
      {
        what: 'GET /plants, 1,000,000',
        MB: round2(bytes / 1e6),
        'ours, s': round2(bytes / 1e6 / found.middle('ours')),
        'bare, MB/s': Math.round(found.middle('bare')),
        'ours, MB/s': Math.round(found.middle('ours')),
        'MB more memory': Math.round(growth),
        [`p99 of ${others.reads.length} small reads, ms`]: round2(p99),
        [`slowest of ${others.writes.length} writes, ms`]: round2(Math.max(...others.writes)),
      },
    ])
    return [
      atLeast('list of 1,000,000, throughput to bare', 0.5, found.ratio('ours', 'bare')),
      atMost('list of 1,000,000, more memory', 60, growth, ' MB'),
      atMost('GET /plants?limit=1 meanwhile, p99', 50, p99, ' ms'),
      atLeast('POST /plants meanwhile, answered', 1, others.writes.length),
    ]
  } finally {
    for (const process of processes) await process.stop()
    folders.remove()
  }
}

/** Sends other requests during a long list, and records their latencies and the memory of the service. */
class Others {
  readonly #service: Measured
  /** The latencies of small reads during lists, in milliseconds. */
  readonly reads: number[] = []
  /** The latencies of writes that were answered before the list was complete, in milliseconds. */
  readonly writes: number[] = []
  /** The highest sample of the service's memory during lists, in MB. */
  highest = 0

  constructor(service: Measured) {
    this.#service = service
  }

  async whileListing(): Promise<void> {
    let isListing = true
    const list = ask(this.#service, '/plants').finally(() => {
      isListing = false
    })
    const timed = async (times: number[], path: string, body?: string) => {
      const start = performance.now()
      await ask(this.#service, path, body)
      if (isListing) times.push(performance.now() - start)
    }
    for (let turn = 0; isListing; turn++) {
      await timed(this.reads, '/plants?limit=1')
      if (turn % 50 === 10) await timed(this.writes, '/plants', '{"name":"Monstera"}')
      this.highest = Math.max(this.highest, residentMegabytes(this.#service.pid))
    }
    await list
  }
}

/** Sends a request, reads the whole reply and counts its bytes. */
function ask({ port }: Measured, path: string, body?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${benchKey}`, 'content-type': 'application/json' }
    const method = body === undefined ? 'GET' : 'POST'
    const call = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      let bytes = 0
      response.on('data', (piece: Buffer) => {
        bytes += piece.length
      })
      response.on('end', () => {
        if (response.statusCode === 200) resolve(bytes)
        else reject(new Error(`${path} answered ${response.statusCode}`))
      })
      response.on('error', reject)
    })
    call.on('error', reject)
    call.end(body)
  })
}
