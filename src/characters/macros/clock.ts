/** Macros without arguments that tell the time, in the zone of the service. */
const clocks = {
  time: formatter({ hour: 'numeric', minute: '2-digit' }),
  date: formatter({ dateStyle: 'long' }),
  weekday: formatter({ weekday: 'long' }),
  isotime: (now: Date) => `${two(now.getHours())}:${two(now.getMinutes())}`,
  isodate: (now: Date) => `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`,
}
type ClockName = keyof typeof clocks

/** Tells the time of one moment, in the form of a macro. */
export type Clock = (name: ClockName) => string

/** Whether a macro of this name tells the time. */
export function isClock(name: string): name is ClockName {
  return Object.hasOwn(clocks, name)
}

/** Reads each clock once, however often it is asked: one belongs to one prompt. */
export function clockAt(now: Date): Clock {
  const read = new Map<ClockName, string>()
  return (name) => {
    const known = read.get(name)
    if (known !== undefined) return known
    const made = clocks[name](now)
    read.set(name, made)
    return made
  }
}

/** Writes dates in one form. What writes them is made once: it takes 35 kB outside the heap, and most of the time. */
function formatter(form: Intl.DateTimeFormatOptions): (now: Date) => string {
  let made: Intl.DateTimeFormat | undefined
  return (now) => {
    made ??= new Intl.DateTimeFormat('en-US', form)
    return made.format(now)
  }
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}
