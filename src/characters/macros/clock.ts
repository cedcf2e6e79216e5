import { valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'

/** The time macros without an argument. Their values are in the time zone of the service. */
const clocks = {
  time: formatter({ hour: 'numeric', minute: '2-digit' }),
  date: formatter({ dateStyle: 'long' }),
  weekday: formatter({ weekday: 'long' }),
  isotime: (now: Date) => `${two(now.getHours())}:${two(now.getMinutes())}`,
  isodate: (now: Date) => `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`,
}
type ClockName = keyof typeof clocks

/** The values of all time macros at one moment. */
export interface Clock {
  /** The value of a macro that has no argument. */
  readonly value: (name: ClockName) => string
  /** The time of day at an offset such as `UTC+2`, in the form `4:05 PM`; undefined if the text is not an offset. */
  readonly timeAt: (offset: string) => string | undefined
  /** The moment in a format of Moment.js, in English; undefined for a format that is too long. */
  readonly format: (format: string) => string | undefined
}

/** Whether this is the name of a time macro without an argument. */
export function isClock(name: string): name is ClockName {
  return Object.hasOwn(clocks, name)
}

/** A clock at a fixed moment. */
export function clockAt(now: Date): Clock {
  return {
    value: (name) => {
      spend(unitsOfValue)
      return clocks[name](now)
    },
    timeAt: (offset) => timeAt(now, offset),
    format: (format) => formatDate(now, format),
  }
}

/**
 * A function that formats dates. Its `DateTimeFormat` takes 35 kB outside of the heap, so it is made only at the first call.
 * Making it takes most of the time, so it is kept for later calls.
 */
function formatter(form: Intl.DateTimeFormatOptions): (now: Date) => string {
  let made: Intl.DateTimeFormat | undefined
  return (now) => {
    made ??= new Intl.DateTimeFormat('en-US', form)
    return made.format(now)
  }
}

const minutesOfDay = 1440

/**
 * The time of day at an offset. An offset without a colon is in hours if it is below 16, otherwise in minutes, as in Moment.js
 * ("UTC Offset" in the documentation of Moment.js).
 */
function timeAt(now: Date, offset: string): string | undefined {
  const [, sign, whole = '', minutes] = /^utc([+-])(\d{1,4})(?::([0-5]\d))?$/i.exec(offset.trim()) ?? []
  const number = Number(whole)
  const distance = minutes === undefined && number >= 16 ? number : 60 * number + Number(minutes ?? 0)
  if (sign === undefined || distance >= minutesOfDay) return undefined
  const there = new Date(now.getTime() + (sign === '-' ? -distance : distance) * 60_000)
  return `${halfDay(there.getUTCHours())}:${two(there.getUTCMinutes())} ${there.getUTCHours() < 12 ? 'AM' : 'PM'}`
}

/** Units of work for the value of a macro without an argument. */
const unitsOfValue = 100
/** Units of work for each character of a format. */
const unitsOfFormat = 8
/** The most characters of a format. Useful formats have at most some dozens. */
const maxFormatLength = 200

const months = 'January February March April May June July August September October November December'.split(' ')
const weekdays = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ')

/** Most tokens of Moment.js's formats ("Format" in its documentation), in English. `gg`, `GG` and `SSSS` are missing. */
const tokens: Readonly<Record<string, string | ((now: Date) => string | number)>> = {
  YYYY: (now) => String(now.getFullYear()).padStart(4, '0'),
  YY: (now) => two(now.getFullYear() % 100),
  Y: (now) => now.getFullYear(),
  Q: quarter,
  Qo: (now) => ordinal(quarter(now)),
  MMMM: monthName,
  MMM: (now) => monthName(now).slice(0, 3),
  MM: (now) => two(now.getMonth() + 1),
  Mo: (now) => ordinal(now.getMonth() + 1),
  M: (now) => now.getMonth() + 1,
  DDDD: (now) => String(dayOfYear(now)).padStart(3, '0'),
  DDDo: (now) => ordinal(dayOfYear(now)),
  DDD: dayOfYear,
  DD: (now) => two(now.getDate()),
  Do: (now) => ordinal(now.getDate()),
  D: (now) => now.getDate(),
  dddd: weekdayName,
  ddd: (now) => weekdayName(now).slice(0, 3),
  dd: (now) => weekdayName(now).slice(0, 2),
  do: (now) => ordinal(now.getDay()),
  d: (now) => now.getDay(),
  e: (now) => now.getDay(),
  E: (now) => now.getDay() || 7,
  // In English, a week begins on Sunday and belongs to the year of its Saturday (`gggg`, `w`). By ISO 8601, it begins on Monday
  // and belongs to the year of its Thursday (`GGGG`, `W`).
  gggg: (now) => inWeek(now, 6).getFullYear(),
  ww: (now) => two(weekOfYear(inWeek(now, 6))),
  wo: (now) => ordinal(weekOfYear(inWeek(now, 6))),
  w: (now) => weekOfYear(inWeek(now, 6)),
  GGGG: (now) => inIsoWeek(now).getFullYear(),
  WW: (now) => two(weekOfYear(inIsoWeek(now))),
  Wo: (now) => ordinal(weekOfYear(inIsoWeek(now))),
  W: (now) => weekOfYear(inIsoWeek(now)),
  HH: (now) => two(now.getHours()),
  H: (now) => now.getHours(),
  hh: (now) => two(halfDay(now.getHours())),
  h: (now) => halfDay(now.getHours()),
  kk: (now) => two(now.getHours() || 24),
  k: (now) => now.getHours() || 24,
  mm: (now) => two(now.getMinutes()),
  m: (now) => now.getMinutes(),
  ss: (now) => two(now.getSeconds()),
  s: (now) => now.getSeconds(),
  SSS: (now) => String(now.getMilliseconds()).padStart(3, '0'),
  SS: (now) => two(Math.floor(now.getMilliseconds() / 10)),
  S: (now) => Math.floor(now.getMilliseconds() / 100),
  A: (now) => (now.getHours() < 12 ? 'AM' : 'PM'),
  a: (now) => (now.getHours() < 12 ? 'am' : 'pm'),
  ZZ: (now) => zone(now, ''),
  Z: (now) => zone(now, ':'),
  X: (now) => Math.floor(now.getTime() / 1000),
  x: (now) => now.getTime(),
  LTS: 'h:mm:ss A',
  LT: 'h:mm A',
  LLLL: 'dddd, MMMM D, YYYY h:mm A',
  LLL: 'MMMM D, YYYY h:mm A',
  LL: 'MMMM D, YYYY',
  L: 'MM/DD/YYYY',
  llll: 'ddd, MMM D, YYYY h:mm A',
  lll: 'MMM D, YYYY h:mm A',
  ll: 'MMM D, YYYY',
  l: 'M/D/YYYY',
}

const longestFirst = Object.keys(tokens).sort((one, other) => other.length - one.length)
const part = new RegExp(`\\[([^\\]]*)\\]|\\\\(.)|${longestFirst.join('|')}`, 'gs')

function formatDate(now: Date, format: string): string | undefined {
  if (format.length > maxFormatLength) return undefined
  spend(format.length * unitsOfFormat)
  return format.replace(part, (token: string, quoted: string | undefined, escaped: string | undefined) => {
    const value = valueIn(tokens, token)
    if (typeof value === 'string') return formatDate(now, value) ?? ''
    return quoted ?? escaped ?? String(value?.(now) ?? token)
  })
}

function monthName(now: Date): string {
  return months[now.getMonth()] ?? ''
}

function weekdayName(now: Date): string {
  return weekdays[now.getDay()] ?? ''
}

function quarter(now: Date): number {
  return Math.floor(now.getMonth() / 3) + 1
}

function dayOfYear(now: Date): number {
  const [start, day] = [Date.UTC(now.getFullYear(), 0), Date.UTC(now.getFullYear(), now.getMonth(), now.getDate())]
  return (day - start) / 86_400_000 + 1
}

/** The day that is `weekday` days after the Sunday which begins the week of `now`. */
function inWeek(now: Date, weekday: number): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - now.getDay() + weekday)
}

/** The Thursday of the week of `now`, which begins on Monday. */
function inIsoWeek(now: Date): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - (now.getDay() || 7) + 4)
}

function weekOfYear(day: Date): number {
  return Math.ceil(dayOfYear(day) / 7)
}

function halfDay(hours: number): number {
  return hours % 12 || 12
}

function zone(now: Date, between: string): string {
  const minutes = -now.getTimezoneOffset()
  const distance = Math.abs(minutes)
  return `${minutes < 0 ? '-' : '+'}${two(Math.floor(distance / 60))}${between}${two(distance % 60)}`
}

function ordinal(number: number): string {
  const last = number % 10
  if (last > 3 || last === 0 || Math.floor((number % 100) / 10) === 1) return `${number}th`
  return `${number}${last === 1 ? 'st' : last === 2 ? 'nd' : 'rd'}`
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}
