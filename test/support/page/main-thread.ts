import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** The factor by which the CPU is slowed down, to the speed of a phone. */
const slowedDown = 4

interface TraceEvent {
  readonly name: string
  readonly ph: string
  readonly pid: number
  readonly tid: number
  /** The CPU time of the event, in microseconds. */
  readonly tdur?: number
  readonly args?: { readonly name?: string }
}

/**
 * Runs an action in a page on a slowed CPU, and measures the longest task of the main thread.
 * @returns its CPU milliseconds. Unlike wall-clock time, CPU time does not depend on other load of the machine.
 */
async function longestTask(page: Page, act: () => Promise<unknown>): Promise<number> {
  const browser = page.context().browser()
  if (!browser) throw new Error('The page has no browser.')
  const tools = await page.context().newCDPSession(page)
  await tools.send('Emulation.setCPUThrottlingRate', { rate: slowedDown })
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] })
  let trace: Buffer
  try {
    await act()
    // After two frames the result is drawn.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
  } finally {
    trace = await browser.stopTracing()
    await tools.detach()
  }
  const { traceEvents }: { readonly traceEvents: readonly TraceEvent[] } = JSON.parse(String(trace))
  const threadOf = ({ pid, tid }: TraceEvent) => `${pid}/${tid}`
  const named = traceEvents.filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
  const mainThreads = new Set(named.map(threadOf))
  const tasks = traceEvents.filter(
    (event) => event.ph === 'X' && event.tdur !== undefined && mainThreads.has(threadOf(event)),
  )
  if (tasks.length === 0) throw new Error('The trace has no task of the main thread.')
  return tasks.reduce((most, { tdur = 0 }) => Math.max(most, tdur), 0) / 1000
}

/** The maximum time of a task of the main thread on a phone, in milliseconds. */
const longestMs = 200

/** Runs an action in a page. No task of the main thread may take longer than 200 ms on a phone. */
export async function hasShortTasks(page: Page, what: string, act: () => Promise<unknown>): Promise<void> {
  const milliseconds = Math.round(await longestTask(page, act))
  console.info(`${what}: the longest task takes ${milliseconds} ms`)
  expect(milliseconds, what).toBeLessThanOrEqual(longestMs)
}
