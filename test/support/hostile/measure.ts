import { setTimeout as sleep } from 'node:timers/promises'
import { type AttackedService, startAttackedService } from './attacked-service.ts'
import { type Answer, Attacker, patience } from './attacker.ts'
import type { Row } from './row.ts'
import type { Watch, Watched } from './watch.ts'

/** The cost of one attack. */
export interface Cost {
  readonly attackers: number
  /**
   * CPU milliseconds of the longest stretch without a turn of the event loop, without garbage collections. If `isLeast` is
   * true, the main thread was too busy to report, and `held` is the CPU time of the whole attack so far.
   */
  readonly held: number
  readonly isLeast: boolean
  /** The longest time of garbage collections in a stretch, in milliseconds. */
  readonly collections: number
  /** CPU seconds of the main thread. */
  readonly cpu: number
  /** Milliseconds in which the main thread was ready to run but no core was free. They are part of the bystanders' latencies. */
  readonly queued: number
  readonly quiet: Watched
  readonly watched: Watched
  /** The peak memory above the memory of the idle service, in bytes. */
  readonly memory: number
  /** The memory above idle after `calmSeconds` without requests, in bytes; undefined if the service was still busy. */
  readonly calm: Promise<number | undefined>
  /** Seconds of the slowest reply. */
  readonly seconds: number
  readonly answers: readonly Answer[]
  /** Whether the service was still busy after the attackers had disconnected. */
  readonly goesOn: boolean
}

/** Options of the measurement. */
export interface Measuring {
  readonly watch: Watch
  /** The numbers of attackers, in turn. */
  readonly attackers: readonly number[]
  /** Seconds without requests after an attack, before the memory is measured: the calm. */
  readonly calmSeconds: number
}

/** The minimum seconds for which bystanders are measured: before an attack, and during a short attack. */
const watchedFor = 1

/** Attacked services whose memory after the calm is not measured yet. */
const calming = new Set<Promise<unknown>>()

/** Resolves when all attacked services are closed. */
export async function allClosed(): Promise<void> {
  while (calming.size > 0) await Promise.all(calming)
}

/**
 * Runs a row on the service of a checkout. If no attacker gets a reply, larger numbers of attackers are not tried.
 * @returns the cost for each number of attackers
 */
export async function costsOf(row: Row, folder: string, measuring: Measuring): Promise<readonly Cost[]> {
  const numbers = [...new Set(measuring.attackers.map((count) => Math.min(count, row.maxAttackers ?? count)))]
  const costs: Cost[] = []
  let service: WarmService | undefined
  for (const attackers of numbers) {
    service ??= await openWarm(row, folder, measuring)
    const cost = await attack(row, service, attackers, measuring.watch)
    costs.push(cost)
    if (cost.goesOn || !service.isRunning()) {
      service.calmed(false)
      service = undefined
    }
    if (cost.answers.every(({ status }) => status === null)) break
  }
  service?.calmed(true)
  return costs
}

/** A service that has warmed up. */
interface WarmService extends AttackedService {
  /** The memory of the idle service, in bytes. */
  readonly idle: number
  readonly quiet: Watched
  /** The memory above idle after the calm, in bytes; undefined if the service was still busy after the attack. */
  readonly calm: Promise<number | undefined>
  /** Closes the service after its attacks. @param isCalm whether to wait for the calm and measure the memory before */
  calmed(isCalm: boolean): void
}

async function openWarm(row: Row, folder: string, { watch, calmSeconds }: Measuring): Promise<WarmService> {
  const service = await startAttackedService(row, folder, watch.port)
  await plantSome(service)
  const first = new Attacker(0, service.attackerKeys[0], service)
  for (let round = 0; round < 2; round++) await row.warm?.(first)
  // The bystanders' requests warm the service up, too.
  watch.begin(service.url, service.bystanderKey)
  await sleep(500)
  await watch.end()
  const idle = service.memory()
  watch.begin(service.url, service.bystanderKey)
  await sleep(watchedFor * 1000)
  const quiet = await watch.end()
  const over = Promise.withResolvers<boolean>()
  const closing = over.promise.then(async (isCalm) => {
    if (isCalm) await sleep(calmSeconds * 1000)
    const left = isCalm ? service.memory() - idle : undefined
    await service.close()
    return left
  })
  calming.add(closing)
  void closing.finally(() => calming.delete(closing))
  return { ...service, idle, quiet, calm: closing, calmed: over.resolve }
}

/** Adds plants for the bystanders' lists. */
async function plantSome({ url, bystanderKey }: AttackedService): Promise<void> {
  const headers = { authorization: `Bearer ${bystanderKey}`, 'content-type': 'application/json' }
  for (let count = 0; count < 20; count++) {
    const body = JSON.stringify({ name: `Plant ${count}` })
    await (await fetch(`${url}/plants`, { method: 'POST', headers, body })).text()
  }
}

async function attack(row: Row, service: WarmService, count: number, watch: Watch): Promise<Cost> {
  const run = row.prepare()
  const keyOf = (index: number) => service.attackerKeys[row.isOneAccount ? 0 : index]
  const attackers = Array.from({ length: count }, (_, index) => {
    return new Attacker(index, row.isKeyless ? undefined : keyOf(index), service)
  })
  await service.held(5000)
  let highest = 0
  const looking = setInterval(() => {
    highest = Math.max(highest, service.memory())
  }, 20)
  watch.begin(service.url, service.bystanderKey, row.lasts === undefined ? undefined : service.largeKey)
  // The bystanders' connections must be open before the attack.
  await sleep(200)
  const cpu = service.cpu()
  const queued = service.queued()
  const leaving = setTimeout(
    () => {
      for (const each of attackers) each.leave()
    },
    ((row.lasts ?? 0) + patience) * 1000,
  )
  const end = performance.now() + (row.lasts ?? 0) * 1000
  const runAgain = async (attacker: Attacker) => {
    do await run(attacker)
    while (performance.now() < end && !attacker.hasLeft)
  }
  await Promise.all([...attackers.map(runAgain), sleep(watchedFor * 1000)])
  clearTimeout(leaving)
  await sleep(200)
  const watched = await watch.end()
  clearInterval(looking)
  const told = await service.held(3000)
  const atLeast = service.cpu() - cpu
  const answers = attackers.flatMap((each) => each.answers)
  return {
    attackers: count,
    held: told?.work ?? atLeast,
    isLeast: told === undefined,
    collections: told?.collections ?? Number.NaN,
    cpu: (told?.total ?? atLeast) / 1000,
    queued: service.queued() - queued,
    quiet: service.quiet,
    watched,
    memory: highest - service.idle,
    calm: service.calm,
    seconds: Math.max(0, ...answers.map(({ seconds }) => seconds)),
    answers,
    goesOn: await isAtWork(service),
  }
}

/** Whether the main thread is still busy after nine seconds. */
async function isAtWork(service: AttackedService): Promise<boolean> {
  for (let look = 0; look < 30; look++) {
    const before = service.cpu()
    await sleep(300)
    if (service.cpu() - before < 100) return false
  }
  return true
}
