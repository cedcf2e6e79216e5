import { thisProcess } from '../../src/garbage.ts'

/*
 * A program: it makes 200 MB of objects, discards them, and collects the garbage twice, the second time thoroughly. Then it prints
 * the resident memory after each of the two collections, in MB.
 */

const memory = thisProcess()
const residentMegabytes = () => memory.residentBytes() / 1024 ** 2

let objects: object[] = []
for (let count = 0; count < 2_000_000; count++) objects.push({ count, list: [count] })
objects = []
// The objects may be in use until the end of this turn.
await new Promise(setImmediate)
memory.collect(false)
const collectedMegabytes = residentMegabytes()
memory.collect(true)
console.log(JSON.stringify({ collectedMegabytes, thoroughMegabytes: residentMegabytes(), left: objects.length }))
