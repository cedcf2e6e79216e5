import { expect, test } from 'vitest'
import { readContext } from '../../src/tracing/context.ts'

const ids = `${'a'.repeat(32)}-${'b'.repeat(16)}`

test.each([
  [`00-${ids}-01`, true],
  [`00-${ids}-01-more`, false],
  [`00-${ids}-01-`, false],
  [`01-${ids}-01-more`, true],
  [`01-${ids}-01more`, false],
  [`ff-${ids}-01`, false],
])('only versions after 00 of traceparent may have further fields: %s', (traceparent, isRead) => {
  expect(readContext(traceparent, undefined) !== undefined).toBe(isRead)
})
