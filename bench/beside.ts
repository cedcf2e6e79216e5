import { join } from 'node:path'
import { wrk } from './load.ts'
import { type Figure, inTurn, round2 } from './measure.ts'
import { cpuSeconds, type Measured, residentMegabytes, serviceCommand, startPeer, startService } from './processes.ts'
import { asked, relayEnvironment } from './relay.ts'

/*
 * This service beside another one in the same run: under another Node, which OTHER_NODE names, or of another checkout of this
 * project, whose folder OTHER_CHECKOUT names; LOADS=streams drives only the loads whose names match. Rates swing with what else the machine does; CPU time for each request does so less.
 */

/** How a service is started. */
type Command = readonly [string, ...string[]]

/** What drives a service for so many seconds, and gives requests per second. */
type Drive = (service: Measured, seconds?: number) => Promise<number>

const plant = { body: JSON.stringify({ name: 'Monstera', tag: 'aroid' }) }

/** New plants come first: they are what is read afterwards. */
const loads: Readonly<Record<string, Drive>> = {
  'POST /plants': ({ url }, seconds) => wrk(`${url}/plants`, plant, seconds),
  'GET /plants?limit=100': ({ url }, seconds) => wrk(`${url}/plants?limit=100`, {}, seconds),
  'whole completions': ({ url }, seconds) => wrk(`${url}/chat/completions`, { body: asked('whole', false) }, seconds),
  'streams of 100 events': ({ url }, seconds) =>
    wrk(`${url}/chat/completions`, { body: asked('burst', true) }, seconds),
  'understudy, streamed': ({ url }, seconds) =>
    wrk(`${url}/chat/completions`, { body: asked('understudy', true), connections: 4 }, seconds),
}

/** Compares two versions of Node. There is no target: docs/decisions/0022-one-launcher.md says what was chosen for these figures. */
export async function benchRuntimes(): Promise<readonly Figure[]> {
  const other = process.env['OTHER_NODE']
  const [, ...main] = serviceCommand
  return other === undefined ? nothingNamed('OTHER_NODE') : beside([other, ...main])
}

/** Compares two versions of the service: what a change costs. */
export async function benchVersions(): Promise<readonly Figure[]> {
  const other = process.env['OTHER_CHECKOUT']
  return other === undefined
    ? nothingNamed('OTHER_CHECKOUT')
    : beside([process.execPath, join(other, 'src', 'main.ts')])
}

function nothingNamed(variable: string): readonly Figure[] {
  console.log(`${variable} names no other service: nothing is compared.`)
  return []
}

async function beside(command: Command): Promise<readonly Figure[]> {
  const upstream = await startPeer('upstream')
  const environment = relayEnvironment(upstream)
  const here = await startService('this', environment)
  const other = await startService('other', environment, command)
  try {
    const rows: object[] = []
    const wanted = new RegExp(process.env['LOADS'] ?? '')
    for (const [load, drive] of Object.entries(loads).filter(([name]) => wanted.test(name))) {
      for (const service of [here, other]) await drive(service, 8)
      const rate = await inTurn({ here: () => drive(here), other: () => drive(other) })
      const cost = await inTurn({ here: () => cpuOf(here, drive), other: () => cpuOf(other, drive) })
      rows.push({
        load,
        'this/s': Math.round(rate.middle('here')),
        'other/s': Math.round(rate.middle('other')),
        'rate, this to other': round2(rate.ratio('here', 'other')),
        'CPU, this to other': round2(cost.ratio('here', 'other')),
      })
    }
    console.table(rows)
    console.table([here, other].map(({ name, pid }) => ({ service: name, 'MB resident': residentMegabytes(pid) })))
    return []
  } finally {
    for (const service of [here, other, upstream]) await service.stop()
  }
}

/** CPU seconds that a service takes for each request of a load. */
async function cpuOf(service: Measured, drive: Drive): Promise<number> {
  const seconds = 2
  const before = cpuSeconds(service.pid)
  const rate = await drive(service, seconds)
  return (cpuSeconds(service.pid) - before) / (rate * seconds)
}
