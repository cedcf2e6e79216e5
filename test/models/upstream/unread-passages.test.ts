import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import { EventReader } from '../../../src/models/upstream/event-reader.ts'
import { often } from '../../support/often.ts'

/** An event with one choice, with or without blanks around the colons of its JSON. */
function event(choice: object, more: object, isSpaced: boolean): string {
  const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [choice], ...more }
  const json = JSON.stringify(chunk)
  return `data: ${isSpaced ? json.replaceAll('":', '" : ') : json}\n\n`
}

const words = fc.oneof(
  fc.string(),
  fc.constantFrom('"error"', '"usage":{', '"finish_reason":"stop"', 'data: {', '\n\n', '}\n\n'),
)
const anyEvent = fc
  .record({
    content: words,
    reason: fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.constant('stop') }),
    usage: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom({}, { usage: null }) },
      {
        weight: 1,
        arbitrary: fc.constant({ usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } }),
      },
    ),
    isSpaced: fc.boolean(),
  })
  .map(({ content, reason, usage, isSpaced }) =>
    event({ index: 0, delta: { content }, finish_reason: reason }, usage, isSpaced),
  )

/** Reads a stream in these pieces, and returns among others the client's text and the parsed chunks that the service needs. */
function passed(pieces: readonly Buffer[], readAll: boolean) {
  const reader = new EventReader(readAll, [])
  const groups = [...pieces.map((piece) => reader.read(piece)), reader.end()]
  const events = groups.flatMap((group) => group.events)
  const chunks = events.flatMap((each) => ('passage' in each ? each.read : [each.chunk]))
  return {
    text: events.map((each) => ('passage' in each ? each.passage.toString() : `data: ${each.text}\n\n`)).join(''),
    needed: chunks.filter(({ usage, choices }) => usage != null || choices.some((choice) => choice.finish_reason)),
    count: events.reduce((sum, each) => sum + ('passage' in each ? each.events : 1), 0),
    isDone: groups.some(({ isDone }) => isDone),
    failures: groups.flatMap(({ failure }) => failure ?? []),
  }
}

it('events pass unread with the same result as if each were parsed, and the service gets what it needs', () => {
  fc.assert(
    fc.property(
      fc.array(anyEvent, { maxLength: 20 }),
      fc.array(fc.nat(4000), { maxLength: 6 }),
      fc.boolean(),
      (events, cuts, isEnded) => {
        const first = event({ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }, {}, false)
        const bytes = Buffer.from(first + events.join('') + (isEnded ? 'data: [DONE]\n\n' : ''))
        const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).toSorted((a, b) => a - b), bytes.length]
        const pieces = places.slice(1).map((place, index) => bytes.subarray(places[index], place))
        expect(passed(pieces, false)).toEqual(passed(pieces, true))
      },
    ),
    { numRuns: often(500) },
  )
})

it.each([':\n\n', 'event: a\n\n'])(
  'many events without data are searched once for what the service needs: %j',
  (other) => {
    const reader = new EventReader(false, [])
    reader.read(Buffer.from(event({ index: 0, delta: { role: 'assistant', content: '' } }, {}, false)))
    using exec = vi.spyOn(RegExp.prototype, 'exec')
    reader.read(Buffer.from(other.repeat(1000)))
    const searches = exec.mock.contexts.filter((pattern) => String(pattern).includes('finish_reason'))
    expect(searches).toHaveLength(1)
  },
)
