import type { Work } from '../../src/work/work.ts'

/** Work that always fails. */
export function failingWork(error: Error): Work {
  const fail = (): never => {
    throw error
  }
  return { run: fail, runInPool: fail }
}
