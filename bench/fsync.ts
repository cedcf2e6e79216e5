import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Figure } from './measure.ts'
import { Folders } from './plants.ts'
import { benchKey, serviceCommand, startService } from './processes.ts'

/*
 * Shows from outside that a plant is on disk before its reply is sent. 64 requests add plants in parallel, and strace lists in
 * order the service's writes to the database's log, its syncs and its replies. Each batch must be writes, one sync, and replies,
 * and there must be far fewer batches than plants.
 */

const plants = 64

/** Traces a burst of writes. Needs strace (Debian's package of that name); if strace is missing, the benchmark only says so. */
export async function benchFsync(): Promise<readonly Figure[]> {
  if (spawnSync('strace', ['-V']).error) {
    console.log('strace is missing, so nothing was traced. Install it, such as with: apt-get install strace')
    return []
  }
  const folders = new Folders()
  const trace = join(folders.make(), 'trace')
  const calls = 'trace=fdatasync,fsync,write,writev,pwrite64,sendto'
  const service = await startService('traced', {}, ['strace', '-D', '-f', '-e', calls, '-o', trace, ...serviceCommand])
  try {
    const sockets = await Promise.all(Array.from({ length: plants }, () => open(service.port)))
    // These requests are not measured. The first write creates the database's log, with an extra sync. A request on each socket
    // makes sure that all connections are accepted: the event loop accepts one connection in a turn, and commits once in a turn.
    await Promise.all(sockets.map(post))
    const before = readFileSync(trace, 'utf8').length
    await Promise.all(sockets.map(post))
    await new Promise((resolve) => setTimeout(resolve, 200))
    for (const socket of sockets) socket.destroy()
    return judge(stepsOf(readFileSync(trace, 'utf8').slice(before)))
  } finally {
    await service.stop()
    folders.remove()
  }
}

/** The trace as letters: `w` a write to a file, `s` a finished sync, `r` a reply. */
function stepsOf(trace: string): string {
  const letters = trace.split('\n').map((line) => {
    if (/\bpwrite64(\(| resumed)/.test(line)) return 'w'
    if (/\bf(data)?sync(\(| resumed).* = 0$/.test(line)) return 's'
    return /\b(write|writev|sendto)\(.*"HTTP\/1\.1 200/.test(line) ? 'r' : ''
  })
  return letters.join('')
}

function judge(steps: string): readonly Figure[] {
  console.log(steps.replace(/r(?=w)/g, 'r ').replace(/([wr])\1+/g, (run) => `${run[0]}${run.length}`))
  const batches = steps.match(/w+s+r+/g) ?? []
  const syncs = steps.split('s').length - 1
  const replies = steps.split('r').length - 1
  return [
    {
      figure: `${plants} plants at once: replies, all after the sync of their batch`,
      target: `${plants}, yes`,
      found: `${replies}, ${batches.join('') === steps ? 'yes' : 'no'}`,
      isReached: replies === plants && batches.join('') === steps,
    },
    {
      figure: `${plants} plants at once: syncs`,
      target: `one to a batch, at most ${plants / 4}`,
      found: `${syncs} to ${batches.length} batches`,
      isReached: syncs === batches.length && syncs <= plants / 4,
    },
  ]
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket))
    socket.once('error', reject)
  })
}

/** Sends a plant and waits for its reply. */
function post(socket: Socket | undefined): Promise<void> {
  const body = '{"name":"Monstera"}'
  return new Promise((resolve) => {
    socket?.once('data', () => resolve())
    socket?.write(
      `POST /plants HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${benchKey}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    )
  })
}
