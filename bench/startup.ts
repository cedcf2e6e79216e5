import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { machineLine, median } from './measure.ts'

/*
 * How long the Node process itself takes from its start to the first answer of /livez, and how much memory it has then:
 * with an empty data folder (the very first start), and with one that it has used before.
 * Targets: under 450 ms and under 125 MB.
 */

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const rounds = 9

interface Start {
  readonly milliseconds: number
  readonly megabytes: number
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}

async function start(dataDirectory: string): Promise<Start> {
  const port = await freePort()
  const begun = performance.now()
  const service = spawn(process.execPath, [main], {
    env: { PATH: process.env['PATH'], DATA_DIR: dataDirectory, PORT: String(port), LOG_LEVEL: 'silent' },
    stdio: 'ignore',
  })
  const ended = new Promise((resolve) => service.once('exit', resolve))
  const answers = async () => {
    try {
      return (await fetch(`http://127.0.0.1:${port}/livez`)).ok
    } catch {
      return false
    }
  }
  while (!(await answers())) {
    if (performance.now() - begun > 20_000) throw new Error('the service does not answer')
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  const milliseconds = performance.now() - begun
  const kilobytes = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1])
  service.kill('SIGTERM')
  await ended
  return { milliseconds, megabytes: (kilobytes * 1024) / 1e6 }
}

const used = mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
const first: Start[] = []
const later: Start[] = []
await start(used)
for (let round = 0; round < rounds; round++) {
  const empty = mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
  first.push(await start(empty))
  later.push(await start(used))
  rmSync(empty, { recursive: true })
}
rmSync(used, { recursive: true })

const row = (name: string, starts: readonly Start[]) => ({
  start: name,
  'to /livez, ms': Math.round(median(starts.map(({ milliseconds }) => milliseconds))),
  'RSS then, MB': Math.round(median(starts.map(({ megabytes }) => megabytes)) * 10) / 10,
})
console.log(`${machineLine()}; medians of ${rounds} starts, taken in turn`)
console.table([row('the very first', first), row('every later one', later)])
