import { boundGarbage } from '../../src/garbage.ts'

/*
 * A process of its own: makes garbage beside 110 MB that are in use, and prints the largest size of its heap, in MB. With the
 * argument `bound` garbage is bounded as in the service. V8 runs with --expose-gc.
 */
const inUse = Array.from({ length: 1_500_000 }, (_, index) => ({ index, text: `x${index}` }))
if (process.argv[2] === 'bound') boundGarbage()
// The bound holds from the next collection on.
globalThis.gc?.()

const megabyte = 1024 ** 2
/** What is old enough to be out of the new space when it becomes garbage. */
const recent: number[][] = []
let maxBytes = 0
for (let made = 0; made < 60_000; made++) {
  recent[made % 4000] = new Array<number>(1250).fill(made)
  if (made % 100 > 0) continue
  maxBytes = Math.max(maxBytes, process.memoryUsage().heapUsed)
  await new Promise(setImmediate)
}
console.log(JSON.stringify({ maxMegabytes: Math.round(maxBytes / megabyte), inUse: inUse.length }))
