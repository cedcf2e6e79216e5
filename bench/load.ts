import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { seconds } from './measure.ts'
import { benchKey } from './processes.ts'

const run = promisify(execFile)

/** The repeated request of a load. */
export interface Load {
  /** The JSON body of a POST request. By default the request is a GET. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Lua for wrk that makes each request, if the requests of a load differ. */
  readonly script?: string
  /** The number of connections; by default 64. */
  readonly connections?: number
}

/**
 * Drives load with wrk: each connection sends its next request as soon as it has a reply.
 * @returns requests per second
 * @throws Error if a reply was not 2xx or 3xx, or a connection failed
 */
export async function wrk(url: string, load: Load = {}, duration = seconds): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'conservatory-wrk-'))
  const file = join(folder, 'request.lua')
  writeFileSync(file, lua(load))
  try {
    const { stdout } = await run('wrk', [
      '-t1',
      `-c${load.connections ?? 64}`,
      `-d${duration}s`,
      '--timeout',
      '10s',
      '-s',
      file,
      url,
    ])
    const failed = /Non-2xx or 3xx responses: \d+|Socket errors: .*/.exec(stdout)?.[0]
    if (failed !== undefined) throw new Error(`${url} failed: ${failed}`)
    return Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1])
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function lua({ body, headers = {}, script = '' }: Load): string {
  const sent = {
    Authorization: `Bearer ${benchKey}`,
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...headers,
  }
  return [
    ...Object.entries(sent).map(([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`),
    ...(body === undefined ? [] : ['wrk.method = "POST"', `wrk.body = ${JSON.stringify(body)}`]),
    script,
  ].join('\n')
}
