import ical, { ICalEventTransparency } from 'ical-generator'
import { defineJob } from '../work/job.ts'

/* The calendar of a feed (RFC 5545). Only requests for a feed load this module: the library takes time to load. */

/** A due date in a calendar. */
export interface CalendarEntry {
  /** Names the event in all versions of the calendar. */
  readonly uid: string
  readonly summary: string
  /** The day of the event, such as 2026-11-29. */
  readonly day: string
  /** The due date, if it is before today; otherwise null. */
  readonly overdueSince: string | null
  /** When the entry has changed, in Unix seconds. */
  readonly changed: number
}

/** The content of a calendar. */
export interface CalendarInput {
  readonly entries: readonly CalendarEntry[]
  /** Whether there are more due dates. */
  readonly isCut: boolean
}

/** How often a client should ask again. */
const refreshSeconds = 3600

/** Writes a calendar. The same input gives the same text. */
export const calendarJob = defineJob(import.meta.url, 'calendarJob', ({ entries, isCut }: CalendarInput): string => {
  const calendar = ical({
    name: 'Plant care',
    prodId: { company: 'Conservatory', product: 'Plant care' },
    ttl: refreshSeconds,
    ...(isCut && { description: `Only the next ${entries.length} due dates are in this calendar.` }),
  })
  for (const { uid, summary, day, overdueSince, changed } of entries) {
    calendar.createEvent({
      id: uid,
      summary,
      start: new Date(`${day}T00:00:00Z`),
      allDay: true,
      stamp: new Date(changed * 1000),
      transparency: ICalEventTransparency.TRANSPARENT,
      ...(overdueSince !== null && { description: `Due since ${overdueSince}.` }),
    })
  }
  return calendar.toString()
})
