import { describe, expect, test } from 'vitest'
import { openAiErrorBody } from '../../../src/errors.ts'
import { errorInside, networkCode, refusalFrom } from '../../../src/models/upstream/errors.ts'
import { stateOf } from '../../../src/usage/states.ts'

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

test.each(['client_gone', 'key_revoked', 'internal_error', 'upstream_timeout', 'wyzzy'])(
  'the code %s of an upstream is shown to the caller, and decides nothing',
  (code) => {
    const error = refusalFrom({ status: 400, body: JSON.stringify({ error: { message: 'No.', code } }) }, [])
    expect(error).toMatchObject({ status: 400, code: 'upstream_refused', cause: { status: 400, code: undefined } })
    expect(openAiErrorBody(error).error.code).toBe(code)
    expect(stateOf(error)).toBe('refused')
  },
)

test('a code of the network is known by its form, and any other code of an error is not repeated', () => {
  const failed = (code: string) => networkCode(Object.assign(new Error('It failed.'), { code }))
  for (const code of [
    'ECONNREFUSED',
    'ENOTFOUND',
    'EAI_AGAIN',
    'UND_ERR_SOCKET',
    'HPE_INVALID_CONSTANT',
    'ERR_TLS_CERT_ALTNAME_INVALID',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'HOSTNAME_MISMATCH',
    'Z_DATA_ERROR',
  ])
    expect(failed(code)).toBe(code)
  for (const code of ['WYZZY', 'EVERYBODY', 'a CERT', 'CERT of wyzzy', 'constructor', 'ERR_'])
    expect(failed(code)).toBeUndefined()
})
