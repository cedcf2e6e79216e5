import { benchRuntimes, benchVersions } from './beside.ts'
import { benchCompose } from './compose.ts'
import { benchDurability } from './durability.ts'
import { benchFsync } from './fsync.ts'
import { benchLimits } from './limits.ts'
import { benchList } from './list.ts'
import { type Figure, machineLine, rounds, seconds } from './measure.ts'
import { benchMove } from './move.ts'
import { benchObservability } from './observability.ts'
import { benchOverload } from './overload.ts'
import { benchPortkey } from './portkey.ts'
import { benchPostgres } from './postgres.ts'
import { benchReads } from './reads.ts'
import { benchRelay } from './relay.ts'

import { benchStartup } from './startup.ts'
import { benchTransfers } from './transfers.ts'
import { benchWalk } from './walk.ts'
import { benchWrites } from './writes.ts'

/*
 * Runs all benchmarks, or only the benchmarks that the command line names (`npm run bench -- reads`), and prints one table at the
 * end. ROUNDS and SECONDS set the number of rounds and the seconds of load.
 */
const benchmarks: Readonly<Record<string, () => Promise<readonly Figure[]>>> = {
  startup: benchStartup,
  walk: benchWalk,
  reads: benchReads,
  writes: benchWrites,
  list: benchList,
  fsync: benchFsync,
  relay: benchRelay,
  portkey: benchPortkey,
  compose: benchCompose,
  durability: benchDurability,
  overload: benchOverload,
  limits: benchLimits,
  postgres: benchPostgres,
  move: benchMove,
  transfers: benchTransfers,
  observability: benchObservability,
  runtimes: benchRuntimes,
  versions: benchVersions,
}

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(benchmarks)
const unknown = names.find((name) => !Object.hasOwn(benchmarks, name))
if (unknown !== undefined) {
  throw new Error(`There is no benchmark ${unknown}; there are ${Object.keys(benchmarks).join(', ')}.`)
}
const figures: Figure[] = []
for (const name of names) {
  console.log(`\n${name}`)
  figures.push(...((await benchmarks[name]?.()) ?? []))
}
console.log('\nall figures')
console.table(figures)
console.log(`${machineLine()}; medians of ${rounds} rounds of ${seconds} s`)
