import { setTimeout as wait } from 'node:timers/promises'

/** Looks again and again until it is so, for things that tell nobody. How long that takes is the test's own time limit. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await wait(10)
}
