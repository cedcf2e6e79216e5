import { getHeapSpaceStatistics } from 'node:v8'
import { keepNewObjectsApart } from '../../src/garbage.ts'

/*
 * A program: a function first makes objects that stay in use, and then objects that are garbage immediately. The program prints
 * how much of the garbage is in V8's old space, in MB. With the argument `apart` V8 has the same settings as in the service.
 */
if (process.argv[2] === 'apart') keepNewObjectsApart()

/** Refers to another object, as a request does. */
interface Made {
  readonly steps: readonly number[]
  readonly body: readonly number[]
}

const bodyOf = (index: number): readonly number[] => new Array<number>(50).fill(index)
const make = (index: number): Made => ({ steps: [index, index + 1], body: bodyOf(index) })

function oldMegabytes(): number {
  const spaces = getHeapSpaceStatistics()
  return (spaces.find(({ space_name }) => space_name === 'old_space')?.space_used_size ?? 0) / 1024 ** 2
}

const count = 400_000
const inUse: Made[] = []
for (let index = 0; index < count; index++) inUse.push(make(index))
const before = oldMegabytes()
let last = inUse[0]
for (let index = 0; index < count; index++) last = make(index)
// The objects are printed, so that V8 does not optimize them away.
console.log(
  JSON.stringify({ garbageMegabytes: Math.round(oldMegabytes() - before), inUse: inUse.length, last: last?.steps[0] }),
)
