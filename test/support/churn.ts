import { boundGarbage } from '../../src/garbage.ts'

/*
 * A program: while 110 MB are in use, it makes garbage, and then prints the largest size of its heap in MB. With the argument
 * `bound`, garbage is bounded as in the service. It needs Node's option --expose-gc.
 */
const inUse = Array.from({ length: 1_500_000 }, (_, index) => ({ index, text: `x${index}` }))
if (process.argv[2] === 'bound') boundGarbage()
// V8 reads the bound at the end of a collection.
globalThis.gc?.()

const megabyte = 1024 ** 2
/** Each array stays here until it is in V8's old space, and becomes garbage later. */
const recent: number[][] = []
let maxBytes = 0
for (let made = 0; made < 60_000; made++) {
  recent[made % 4000] = new Array<number>(1250).fill(made)
  if (made % 100 > 0) continue
  maxBytes = Math.max(maxBytes, process.memoryUsage().heapUsed)
  await new Promise(setImmediate)
}
console.log(JSON.stringify({ maxMegabytes: Math.round(maxBytes / megabyte), inUse: inUse.length }))
