import { expect, it, vi } from 'vitest'
import { EventReader } from '../../../src/models/upstream/event-reader.ts'
import { chunkText } from '../../support/upstream.ts'

const chunk = chunkText({ role: 'assistant', content: 'Hm.' })

it.each([
  ['an event without its blank line', `data: ${chunk}`, chunk, 1],
  ['an error as plain JSON', '{"error":{"message":"No."}}', '{"error":{"message":"No."}}', 0],
])('parses %s at the end of a stream once', (_what, sent, json, events) => {
  const reader = new EventReader(false, [])
  reader.read(Buffer.from(sent))
  using parse = vi.spyOn(JSON, 'parse')
  expect(reader.end()).toMatchObject(events === 0 ? { failure: { code: 'upstream_error' } } : { events: [{}] })
  expect(parse.mock.calls.filter(([text]) => text === json)).toHaveLength(1)
})
