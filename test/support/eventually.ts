import { setTimeout as wait } from 'node:timers/promises'
import { onTestFailed } from 'vitest'

/**
 * Repeats a check until it passes, for conditions without an event to wait for. This function has no timeout of its own, because
 * a busy machine would exceed any timeout. After the test's timeout, the next failure of the check is thrown.
 * @returns the result of the check
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

/** Repeats a check until its result is true. If the result is never true, the test fails at the test's timeout. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await wait(10)
}
