import { describe, expect, test } from 'vitest'
import { refusalFrom } from '../../../src/models/upstream/errors.ts'
import { errorInside } from '../../../src/models/upstream/inside-error.ts'

/** Values that cannot become a text or a number. */
const odd: readonly (readonly [string, string])[] = [
  ['an object with a property toString', '{"toString":1,"valueOf":1}'],
  ['a list that nests 30,000 deep', `${'['.repeat(30_000)}${']'.repeat(30_000)}`],
]

describe.each(odd)('an upstream error with %s', (_what, value) => {
  test('as its delay is a rate limit without a time', () => {
    const body = `{"error":{"message":"Slow down","details":[{"retryDelay":${value}}]}}`
    expect(refusalFrom({ status: 429, body }, [])).toMatchObject({ status: 429, headers: {} })
  })

  test.each(['code', 'type', 'status'])('as its %s within a 200 is a 502', (name) => {
    const error: unknown = JSON.parse(`{"error":{"message":"It failed","${name}":${value}}}`)
    expect(errorInside(error, [])).toMatchObject({ status: 502, code: 'upstream_error' })
  })
})

test('a date in Retry-After is at most 999,999 seconds away', () => {
  const refusal = { status: 429, body: '{}', retryAfter: 'Sun, 01 Jan 275000 00:00:00 GMT' }
  expect(refusalFrom(refusal, []).headers).toMatchObject({ 'retry-after': '999999' })
})
