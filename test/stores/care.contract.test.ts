import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { addDays, civilDay, dueDate, type Schedule } from '../../src/care/due.ts'
import { readDue } from '../../src/care/due-list.ts'
import {
  addEvents,
  type CareEvent,
  countEvents,
  eventsOf,
  leftEvents,
  removeEvent,
  removeEvents,
} from '../../src/care/events.ts'
import { type Rule, removeRule, renewDueDates, rulesOf, setRule, snooze } from '../../src/care/rules.ts'
import { ApiError } from '../../src/errors.ts'
import type { PlantStore } from '../../src/plants/plant.ts'
import { pruneOnce } from '../../src/storage/prune.ts'
import type { Scripts } from '../../src/storage/scripts.ts'
import { engines, type TestDatabase } from '../support/engines.ts'
import { often } from '../support/often.ts'

const noon = Date.parse('2026-11-29T12:00:00Z') / 1000
const day = 86_400
const zones = ['Europe/Berlin', 'Asia/Kathmandu', 'America/New_York', null] as const
const kinds = ['feed', 'water'] as const
const refuse = () => new ApiError(404, 'unknown_plant', 'There is no such plant.')

// Most actions are about the same rule, so that they meet.
const kind = fc.constantFrom('water', 'water', 'water', 'feed')
const plant = fc.constantFrom(1, 1, 1, 2)
const at = fc.integer({ min: noon - 90 * day, max: noon + day })
const interval = fc.integer({ min: 1, max: 40 })
const season = fc.record({
  from: fc.constantFrom('02-29', '10-01', '11-15', '12-01'),
  to: fc.constantFrom('01-10', '02-28', '02-29', '12-31'),
  everyDays: fc.option(interval),
})
const action = fc.oneof(
  fc.record({ do: fc.constant('set' as const), plant, kind, everyDays: interval, season: fc.option(season) }),
  fc.record({ do: fc.constant('remove' as const), plant, kind }),
  fc.record({ do: fc.constant('snooze' as const), plant, kind, days: fc.integer({ min: 1, max: 30 }) }),
  fc.record({
    do: fc.constant('add' as const),
    events: fc.array(fc.record({ plant, kind, at }), { minLength: 1, maxLength: 4 }),
  }),
  fc.record({ do: fc.constant('forget' as const), index: fc.nat(20) }),
  fc.record({ do: fc.constant('forgetMany' as const), plant, kind: fc.option(kind), to: at }),
  fc.record({ do: fc.constant('move' as const), zone: fc.constantFrom(...zones) }),
  fc.record({ do: fc.constant('replant' as const), plant }),
)
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never

interface KnownRule extends Schedule {
  readonly setOn: string
  readonly notBefore: string | null
}

/** The rules of care in their simplest form. */
class Model {
  zone: string | null = null
  events: { id: string; plant: number; kind: string; at: number }[] = []
  readonly rules = new Map<string, KnownRule>()

  /** What the store must have of a rule. */
  expected(plant: number, kind: string) {
    const rule = this.rules.get(`${plant} ${kind}`)
    if (!rule) return []
    const times = this.events.filter((event) => event.plant === plant && event.kind === kind).map((event) => event.at)
    const last = times.length === 0 ? null : Math.max(...times)
    const due = dueDate({ ...rule, last: last === null ? null : civilDay(this.zone, last) })
    return [{ plant, kind, last, notBefore: rule.notBefore, due }]
  }
}

/** A database with a store, beside the model of its account. */
class Tried {
  readonly model = new Model()
  readonly scripts: Scripts
  readonly #database: TestDatabase
  readonly #plants: PlantStore
  readonly account: number
  #ids = 0

  constructor(database: TestDatabase, scripts: Scripts, plants: PlantStore, account: number) {
    this.#database = database
    this.scripts = scripts
    this.#plants = plants
    this.account = account
  }

  async run(action: Action): Promise<void> {
    const { model, scripts, account } = this
    const today = civilDay(model.zone, noon)
    switch (action.do) {
      case 'set': {
        const { plant, kind, everyDays, season } = action
        const key = `${plant} ${kind}`
        await scripts.write(account, () => setRule(account, plant, kind, { everyDays, season }, noon))
        const known = model.rules.get(key)
        const isSame = JSON.stringify([known?.everyDays, known?.season]) === JSON.stringify([everyDays, season])
        const setOn = known && isSame ? known.setOn : today
        model.rules.set(key, { everyDays, season, setOn, notBefore: known?.notBefore ?? null })
        return
      }
      case 'remove':
        await this.#ifKnown(action, () => scripts.write(account, () => removeRule(account, action.plant, action.kind)))
        model.rules.delete(`${action.plant} ${action.kind}`)
        return
      case 'snooze': {
        const { plant, kind, days } = action
        await this.#ifKnown(action, () => scripts.write(account, () => snooze(account, plant, kind, days, noon)))
        const rule = model.rules.get(`${plant} ${kind}`)
        if (rule) model.rules.set(`${plant} ${kind}`, { ...rule, notBefore: addDays(today, days) })
        return
      }
      case 'add': {
        const events = action.events.map((event) => ({ ...event, id: `id-${this.#ids++}` }))
        for (const { plant, kind, at } of events) {
          const rule = model.rules.get(`${plant} ${kind}`)
          const [before] = model.expected(plant, kind)
          if (rule && at >= (before?.last ?? 0)) model.rules.set(`${plant} ${kind}`, { ...rule, notBefore: null })
        }
        model.events.push(...events)
        await scripts.write(account, () => addEvents(account, events, undefined, refuse))
        return
      }
      case 'forget': {
        const [event] = model.events.splice(action.index, 1)
        if (event) await scripts.write(account, () => removeEvent(account, event.plant, event.id))
        return
      }
      case 'forgetMany': {
        const { plant, kind, to } = action
        const isKept = (event: { plant: number; kind: string; at: number }) =>
          event.plant !== plant || (kind !== null && event.kind !== kind) || event.at > to
        const kept = model.events.filter(isKept)
        const removed = await removeEvents(scripts, account, plant, { kind: kind ?? undefined, to })
        expect(removed).toBe(model.events.length - kept.length)
        model.events = kept
        return
      }
      case 'move': {
        model.zone = action.zone
        const zone = action.zone === null ? 'NULL' : `'${action.zone}'`
        await this.#database.run(`UPDATE accounts SET time_zone = ${zone} WHERE id = ${account}`)
        await renewDueDates(scripts, account)
        return
      }
      case 'replant':
        await this.#plants.remove(account, action.plant)
        await this.#plants.create(account, { id: action.plant, name: 'Fern' })
        for (const kind of kinds) model.rules.delete(`${action.plant} ${kind}`)
        model.events = model.events.filter((event) => event.plant !== action.plant)
    }
  }

  async #ifKnown({ plant, kind }: { plant: number; kind: string }, change: () => Promise<unknown>): Promise<void> {
    if (this.model.rules.has(`${plant} ${kind}`)) await change()
    else await expect(change()).rejects.toMatchObject({ status: 404 })
  }

  /** Compares the store with the model. */
  async compare(): Promise<void> {
    const { model, scripts, account } = this
    for (const plant of [1, 2]) {
      const rules = await scripts.read(() => rulesOf(account, plant))
      const facts = ({ plant, kind, last, notBefore, due }: Rule) => ({ plant, kind, last, notBefore, due })
      expect(rules.map(facts)).toEqual(kinds.flatMap((kind) => model.expected(plant, kind)))
      const events = await scripts.read(() => eventsOf(account, plant, {}, undefined, 1000))
      const order = (one: { at: number; id: string }, other: { at: number; id: string }) =>
        other.at - one.at || (one.id < other.id ? 1 : -1)
      const known = model.events.filter((event) => event.plant === plant).toSorted(order)
      expect(events.map(({ id, at, kind }: CareEvent) => ({ id, plant, kind, at }))).toEqual(
        known.map(({ id, at, kind }) => ({ id, plant, kind, at })),
      )
    }
    const due = [1, 2]
      .flatMap((plant) => kinds.flatMap((kind) => model.expected(plant, kind)))
      .filter((rule) => rule.due !== null && rule.due <= '2027-01-15')
      .map(({ due, plant, kind }) => [due, plant, kind])
    const read = await readDue(scripts, account, '2027-01-15', undefined, 10)
    expect(read.map(({ due, plant, kind }) => [due, plant, kind])).toEqual(due.toSorted())
  }
}

describe.each(engines)('the care of plants in $name', (engine) => {
  let database: TestDatabase
  let scripts: Scripts
  let plants: PlantStore
  beforeAll(async () => {
    database = await engine.openDatabase()
    scripts = database.openScripts()
    plants = database.openPlants()
  })
  afterAll(() => database.close())

  async function newOwner(count = 2): Promise<number> {
    const account = await database.newAccount()
    for (let id = 1; id <= count; id++) await plants.create(account, { id, name: 'Fern' })
    return account
  }

  it('is as in the model, whatever is set, logged, snoozed, forgotten, moved and planted again', async () => {
    const property = fc.asyncProperty(fc.array(action, { maxLength: 30, size: 'max' }), async (actions) => {
      const tried = new Tried(database, scripts, plants, await newOwner())
      for (const each of actions) await tried.run(each)
      await tried.compare()
      await pruneOnce(leftEvents(scripts), 0)
      expect(await scripts.read(() => countEvents(tried.account))).toBe(tried.model.events.length)
    })
    await fc.assert(property, { numRuns: often(engine.hasReplicas ? 25 : 100) })
  })

  it('keeps within a limit when many events arrive at the same time, also at several replicas', async () => {
    const account = await newOwner()
    const replicas = engine.hasReplicas ? [scripts, database.openScripts()] : [scripts]
    const add = (index: number) => {
      const event = { plant: 1 + (index % 2), kind: 'water', at: noon + index, id: `event-${index}` }
      const replica = replicas[index % replicas.length] ?? scripts
      return replica.write(account, () => addEvents(account, [event], 25, refuse))
    }
    await scripts.write(account, () => setRule(account, 1, 'water', { everyDays: 3, season: null }, noon))
    const results = await Promise.allSettled(Array.from({ length: 40 }, (_, index) => add(index)))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(25)
    expect(await scripts.read(() => countEvents(account))).toBe(25)
    const logged = await Promise.all([1, 2].map((id) => scripts.read(() => eventsOf(account, id, {}, undefined, 100))))
    expect(logged.flat()).toHaveLength(25)
    const [rule] = await scripts.read(() => rulesOf(account, 1))
    expect(rule?.last).toBe(Math.max(...(logged[0]?.map((event) => event.at) ?? [])))
  })

  it('adds no event to a plant that is deleted at the same time, and counts none twice', async () => {
    const account = await newOwner(20)
    const work = Array.from({ length: 20 }, (_, index) => index + 1).flatMap((id) => [
      scripts.write(account, () => addEvents(account, [{ plant: id, kind: 'a', at: 1, id: `e${id}` }], 1e6, refuse)),
      ...(id % 2 === 0 ? [plants.remove(account, id)] : []),
    ])
    await Promise.allSettled(work)
    await pruneOnce(leftEvents(scripts), 0)
    const counts = await Promise.all(
      Array.from({ length: 10 }, (_, index) => scripts.read(() => eventsOf(account, 2 * index + 1, {}, undefined, 10))),
    )
    expect(counts.flat()).toHaveLength(10)
    expect(await scripts.read(() => countEvents(account))).toBe(10)
  })

  it('removes the events of deleted plants in portions, those of a deleted account, too', async () => {
    const account = await newOwner()
    const events = Array.from({ length: 1200 }, (_, index) => ({
      plant: 1 + (index % 2),
      kind: 'a',
      at: 1,
      id: `e${index}`,
    }))
    await scripts.write(account, () => addEvents(account, events, undefined, refuse))
    await plants.remove(account, 1)
    await plants.remove(account, 2)
    await database.run(`DELETE FROM accounts WHERE id = ${account}`)
    const left = leftEvents(scripts)
    const removed: number[] = []
    for (let count = await left.prune(0, 500); count > 0; count = await left.prune(0, 500)) removed.push(count)
    expect(removed).toEqual([500, 101, 500, 101])
  })
})
