import { setTimeout as wait } from 'node:timers/promises'
import { onTestFailed } from 'vitest'

/**
 * Repeats a check until it passes, where nothing tells of the moment. It has no time limit of its own, since a busy machine
 * would break any: the test's ends it, and then tells what was still amiss.
 * @returns what the check gives
 */
export async function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  let isOver = false
  let amiss: unknown
  onTestFailed(() => {
    isOver = true
    if (amiss !== undefined) console.error('What was waited for:', amiss)
  })
  for (;;) {
    try {
      const result = await check()
      amiss = undefined
      return result
    } catch (error) {
      amiss = error
      if (isOver) throw error
    }
    await wait(10)
  }
}

/** Looks again and again until it is so; how long that may take is the test's own time limit. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await wait(10)
}
