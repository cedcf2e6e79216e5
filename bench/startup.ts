import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { atMost, type Figure, median, round2 } from './measure.ts'
import { freePort, residentMegabytes } from './processes.ts'

/*
 * The time from the start of the Node process to the first reply of /livez, and the memory of the process at that moment: with
 * an empty data folder (the first start), and with a used data folder (every later start).
 * Targets: under 450 ms and under 125 MB.
 */

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const starts = 9

interface Start {
  readonly milliseconds: number
  readonly megabytes: number
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
  const megabytes = residentMegabytes(service.pid ?? 0)
  service.kill('SIGTERM')
  await ended
  return { milliseconds, megabytes }
}

/** Starts the service repeatedly, in turn over an empty and over a used data folder. */
export async function benchStartup(): Promise<readonly Figure[]> {
  const used = mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
  const first: Start[] = []
  const later: Start[] = []
  await start(used)
  for (let round = 0; round < starts; round++) {
    const empty = mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
    first.push(await start(empty))
    later.push(await start(used))
    rmSync(empty, { recursive: true })
  }
  rmSync(used, { recursive: true })

  const firstMiddle = middle(first)
  const laterMiddle = middle(later)
  console.log(`medians of ${starts} starts, taken in turn`)
  console.table({ 'the very first': firstMiddle, 'every later one': laterMiddle })
  return [
    atMost('the very first start to /livez', 450, firstMiddle.milliseconds, ' ms'),
    atMost('every later start to /livez', 450, laterMiddle.milliseconds, ' ms'),
    atMost('memory after the very first start', 125, firstMiddle.megabytes, ' MB'),
    atMost('memory after every later start', 125, laterMiddle.megabytes, ' MB'),
  ]
}

function middle(starts: readonly Start[]): Start {
  return {
    milliseconds: round2(median(starts.map(({ milliseconds }) => milliseconds))),
    megabytes: round2(median(starts.map(({ megabytes }) => megabytes))),
  }
}
