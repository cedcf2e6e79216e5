import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { benchKey } from './processes.ts'

const run = promisify(execFile)

/** What one round of wrk found. */
export interface Load {
  readonly requestsPerSecond: number
  /** Replies that were not 2xx or 3xx, and socket errors. */
  readonly failures: number
}

/**
 * Drives load with wrk: 64 connections that ask again as soon as they are answered.
 * @param body sent as JSON in a POST; a GET without it
 */
export async function wrk(url: string, seconds: number, body?: string, connections = 64): Promise<Load> {
  const folder = mkdtempSync(join(tmpdir(), 'conservatory-wrk-'))
  const script = join(folder, 'request.lua')
  const lines = [`wrk.headers["Authorization"] = "Bearer ${benchKey}"`]
  if (body !== undefined) {
    lines.push(
      'wrk.method = "POST"',
      'wrk.headers["Content-Type"] = "application/json"',
      `wrk.body = ${JSON.stringify(body)}`,
    )
  }
  writeFileSync(script, lines.join('\n'))
  try {
    const { stdout } = await run('wrk', [
      '-t1',
      `-c${connections}`,
      `-d${seconds}s`,
      '--timeout',
      '10s',
      '-s',
      script,
      url,
    ])
    const failed = /Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? '0'
    const sockets = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout)?.slice(1) ?? []
    return {
      requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
      failures: Number(failed) + sockets.reduce((sum, count) => sum + Number(count), 0),
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
