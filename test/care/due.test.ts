import { type Arbitrary, array, assert, constant, constantFrom, integer, option, property, record } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { addDays, civilDay, type DueFacts, daysBetween, dueDate, firstSecondOf } from '../../src/care/due.ts'
import { often } from '../support/often.ts'

/** A day of a leap year, which has all days of a year. */
const dayOfYear = integer({ min: 0, max: 365 }).map((index) => addDays('2024-01-01', index).slice(5))
const day = integer({ min: 0, max: 60_000 }).map((index) => addDays('1970-01-01', index))
const interval = integer({ min: 1, max: 60 })

const edges = ['02-28', '02-29', '03-01', '12-31', '01-01']
const end: Arbitrary<string> = option(dayOfYear, { nil: '' }).chain((found) =>
  found === '' ? constantFrom(...edges) : constant(found),
)
const facts: Arbitrary<DueFacts> = record({
  everyDays: interval,
  season: option(record({ from: end, to: end, everyDays: option(interval) })),
  setOn: day,
  last: option(day),
  notBefore: option(day, { freq: 1 }),
})

/** The rules of the issue in their simplest form: one day after the other. Null if no day of the next thirty years is due. */
function dueByDay({ everyDays, season, setOn, last, notBefore }: DueFacts): string | null {
  for (let distance = last === null ? 0 : 1; distance < 30 * 366; distance++) {
    const due = addDays(last ?? setOn, distance)
    const [month, inMonth] = [Number(due.slice(5, 7)), Number(due.slice(8))]
    const order = (text: string) => Number(text.slice(0, 2)) * 100 + Number(text.slice(3))
    const today = month * 100 + inMonth
    const [from, to] = season ? [order(season.from), order(season.to)] : [0, 0]
    const isInSeason = season !== null && (from <= to ? today >= from && today <= to : today >= from || today <= to)
    const inForce = isInSeason ? season.everyDays : everyDays
    if (inForce === null || (last !== null && distance < inForce)) continue
    return notBefore !== null && notBefore > due ? notBefore : due
  }
  return null
}

describe('a due date', () => {
  it('is the day that a search day by day finds, for any schedule, season, pause and snooze', () => {
    assert(
      property(facts, (each) => {
        expect(dueDate(each)).toBe(dueByDay(each))
      }),
      { numRuns: often(2000) },
    )
  })

  const everyWeek = { everyDays: 7, season: null, setOn: '2026-11-01', last: '2026-11-20', notBefore: null }
  const winter = { from: '11-01', to: '02-28', everyDays: 14 }
  const pause = { ...winter, everyDays: null }
  it.each<[title: string, facts: Partial<DueFacts>, due: string | null]>([
    ['an interval after the last event', {}, '2026-11-27'],
    ['the day of the schedule without an event', { last: null }, '2026-11-01'],
    ['by the interval of the season', { season: winter }, '2026-12-04'],
    [
      'the first day of a season with a shorter interval',
      { season: { ...winter, from: '11-24', everyDays: 3 } },
      '2026-11-24',
    ],
    ['by the longer interval if the season begins before', { last: '2026-10-26', season: winter }, '2026-11-09'],
    ['29 February, the first day after a season to the 28th', { season: pause, last: '2027-12-01' }, '2028-02-29'],
    ['1 March after that season in other years', { season: pause }, '2027-03-01'],
    ['1 March after a season to 29 February', { season: { ...pause, to: '02-29' }, last: '2027-12-01' }, '2028-03-01'],
    ['1 March after that season in other years, too', { season: { ...pause, to: '02-29' } }, '2027-03-01'],
    ['after the pause in which the schedule was set', { season: pause, last: null }, '2027-03-01'],
    ['none in a pause of all year', { season: { from: '01-01', to: '12-31', everyDays: null } }, null],
    [
      'none in a pause of all year across the new year',
      { season: { from: '06-02', to: '06-01', everyDays: null } },
      null,
    ],
    [
      'the next 29 February if all other days are in a pause',
      { last: '2096-02-29', season: { from: '03-01', to: '02-28', everyDays: null } },
      '2104-02-29',
    ],
    ['the end of a snooze', { notBefore: '2026-11-30' }, '2026-11-30'],
    ['later than a snooze that has ended', { notBefore: '2026-11-22' }, '2026-11-27'],
    [
      'none in a pause of all year, with a snooze too',
      { season: { from: '01-01', to: '12-31', everyDays: null }, notBefore: '2026-11-30' },
      null,
    ],
    ['far away after the longest interval', { everyDays: 3650 }, '2036-11-17'],
  ])('is %s', (_title, changed, due) => {
    expect(dueDate({ ...everyWeek, ...changed })).toBe(due)
  })
})

describe('a civil day', () => {
  const zones = [
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Asia/Kathmandu',
    'Pacific/Kiritimati',
    'Pacific/Pago_Pago',
  ]
  const hour = 3600

  it('begins at midnight of its zone, also on the days on which summer time begins or ends', () => {
    assert(
      property(constantFrom(...zones), integer({ min: 0, max: 5_000_000_000 }), (zone, second) => {
        // The clock of the zone, as another locale and other fields write it.
        const clock = new Date(second * 1000).toLocaleString('sv-SE', { timeZone: zone })
        expect(civilDay(zone, second)).toBe(clock.slice(0, 10))
      }),
    )
  })

  it.each([
    ['Europe/Berlin', '2026-03-29', 23],
    ['Europe/Berlin', '2026-10-25', 25],
    ['Europe/Berlin', '2026-11-28', 24],
    ['America/New_York', '2026-03-08', 23],
    ['Australia/Lord_Howe', '2026-04-05', 24.5],
  ])('in %s, %s has %d hours', (zone, day, hours) => {
    const noon = Date.parse(`${day}T00:00:00Z`) / 1000
    const seconds = Array.from({ length: 4 * 72 }, (_, quarter) => noon - 24 * hour + (quarter * hour) / 4)
    expect(seconds.filter((second) => civilDay(zone, second) === day)).toHaveLength(hours * 4)
  })

  it('begins at its first second, also where summer time begins at midnight', () => {
    assert(
      property(
        constantFrom('Europe/Berlin', 'Pacific/Pago_Pago', 'America/Santiago', 'Asia/Beirut'),
        day,
        (zone, civil) => {
          const first = firstSecondOf(zone, civil)
          expect(civilDay(zone, first)).toBe(civil)
          expect(civilDay(zone, first - 1)).toBe(addDays(civil, -1))
        },
      ),
      { numRuns: often(300) },
    )
    // Samoa has skipped this day.
    expect(civilDay('Pacific/Apia', firstSecondOf('Pacific/Apia', '2011-12-30'))).toBe('2011-12-31')
  })

  it('of no zone is the day of UTC', () => {
    expect(civilDay(null, 1_764_000_000)).toBe('2025-11-24')
    expect(civilDay('Asia/Tokyo', 1_764_000_000)).toBe('2025-11-25')
  })

  it('counts days over summer time and leap days', () => {
    assert(
      property(array(day, { minLength: 2, maxLength: 2 }), ([first = '', second = '']) => {
        expect(addDays(first, daysBetween(first, second))).toBe(second)
      }),
    )
  })
})
