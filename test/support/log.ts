import fs from 'node:fs'
import { onTestFinished, vi } from 'vitest'

/** The file descriptor of stdout, which the log goes to. */
const stdout = 1

type Take = (text: string) => void
const takers = new Set<Take>()
let giveBack: (() => void) | undefined

/**
 * Takes the log of services in this process: it is kept here, and does not reach stdout until the end.
 * @returns what has been written so far, where a line may be held for 100 ms before; and the way to end it
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

/** The same while the running test lasts. */
export function logForThisTest(): () => string {
  const { written, end } = takeLog()
  onTestFinished(end)
  return written
}

/** Hands what is written on stdout by its number, as the log is, to whoever takes it. @returns how that ends */
function takeWrites(): () => void {
  const { write, writeSync } = fs
  /** @returns the bytes that were taken; undefined when this is not the log */
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
