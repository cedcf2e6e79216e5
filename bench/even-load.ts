import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { benchKey } from './processes.ts'

const caller = fileURLToPath(new URL('./peers/caller.ts', import.meta.url))

/** What became of one request: milliseconds from the beginning to when it was due, from then on to its end; 0 for none. */
export type Outcome = readonly [due: number, took: number, status: number]

/** What is asked at an even rate. */
export interface EvenLoad {
  /** Requests a second, whether or not they are answered. */
  readonly rate: number
  /** Seconds. */
  readonly duration: number
  readonly connections: number
}

/** The bytes of a request with the key of benchmarks: a POST of this JSON, or a GET where there is none. */
export function requestText(path: string, body?: string): string {
  const lines = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    `Authorization: Bearer ${benchKey}`,
  ]
  if (body !== undefined) lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
  return [...lines, '', body ?? ''].join('\r\n')
}

/** Asks the same thing at an even rate, from a process of its own, and tells what became of each request. */
export async function offerEvenly(
  port: number,
  request: string,
  { rate, duration, connections }: EvenLoad,
): Promise<readonly Outcome[]> {
  const child = spawn(process.execPath, [caller, port, rate, duration, connections].map(String), {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(request)
  let text = ''
  for await (const piece of child.stdout) text += piece
  return JSON.parse(text)
}
