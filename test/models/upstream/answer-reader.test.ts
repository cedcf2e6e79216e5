import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AnswerReader } from '../../../src/models/upstream/answer-reader.ts'
import { oddStream } from '../../support/odd-streams.ts'
import { often } from '../../support/often.ts'

/** What a client gets of a stream, and how many events passed unread. */
function read(sent: readonly Buffer[], readAll: boolean) {
  const reader = new AnswerReader(readAll, [])
  let text = ''
  let unread = 0
  for (const piece of [...sent, undefined]) {
    const { events, isDone, failure } = piece ? reader.read(piece) : reader.end()
    for (const event of events) {
      if ('passage' in event) unread += event.events
      text += 'passage' in event ? event.passage.toString() : `data: ${event.text?.replaceAll('\n', '\ndata: ')}\n\n`
    }
    if (isDone || failure) return { text: withoutIds(text), end: failure ? 'failed' : 'done', unread }
  }
  return { text: withoutIds(text), end: reader.hasFinished(1), unread }
}

/** Ids that the reader makes are random. */
const withoutIds = (text: string) => text.replaceAll(/call_[0-9a-f]{32}/g, 'call_made')

test('events pass unread only if they would pass unchanged', () => {
  let unread = 0
  const property = fc.property(oddStream, (sent) => {
    const fast = read(sent, false)
    unread += fast.unread
    expect(fast).toEqual({ ...read(sent, true), unread: fast.unread })
  })
  fc.assert(property, { numRuns: often(2000) })
  expect(unread).toBeGreaterThan(1000)
}, 60_000)
