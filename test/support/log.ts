import fs from 'node:fs'
import { onTestFinished, vi } from 'vitest'

/** The file descriptor of stdout, where the log is written. */
const stdout = 1

type Take = (text: string) => void
const takers = new Set<Take>()
let giveBack: (() => void) | undefined

/**
 * Captures the log of services in this process, which then does not go to stdout.
 * @returns a function that returns the log so far (the service buffers lines for up to 100 ms), and a function that ends the
 *   capture
 */
export function takeLog(): { readonly written: () => string; readonly end: () => void } {
  let written = ''
  const take: Take = (text) => {
    written += text
  }
  takers.add(take)
  giveBack ??= takeWrites()
  const end = () => {
    takers.delete(take)
    if (takers.size > 0) return
    giveBack?.()
    giveBack = undefined
  }
  return { written: () => written, end }
}

/** Captures the log until the end of the running test. @returns a function that returns the log so far */
export function logForThisTest(): () => string {
  const { written, end } = takeLog()
  onTestFinished(end)
  return written
}

/** Intercepts writes to the file descriptor of stdout, such as the log's. @returns a function that ends the interception */
function takeWrites(): () => void {
  const { write, writeSync } = fs
  /** @returns the number of written bytes; undefined for other writes */
  const taken = (fd: unknown, data: unknown): number | undefined => {
    if (fd !== stdout || typeof data !== 'string') return undefined
    for (const take of takers) take(data)
    return Buffer.byteLength(data)
  }
  const spies = [
    vi.spyOn(fs, 'write').mockImplementation((...call: readonly unknown[]) => {
      const [fd, data] = call
      const bytes = taken(fd, data)
      if (bytes === undefined) return Reflect.apply(write, fs, call)
      const done = call.at(-1)
      if (typeof done === 'function') setImmediate(() => done(null, bytes, data))
    }),
    vi.spyOn(fs, 'writeSync').mockImplementation((...call: readonly unknown[]) => {
      const [fd, data] = call
      return taken(fd, data) ?? Reflect.apply(writeSync, fs, call)
    }),
  ]
  return () => {
    for (const spy of spies) spy.mockRestore()
  }
}
