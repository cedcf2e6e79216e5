import { expect, it } from 'vitest'
import { UpstreamReason } from '../../src/models/reason.ts'

it.each([
  ['Proxy response (407) !== 200 when HTTP Tunneling', 'UND_ERR_ABORTED, the proxy answered 407.'],
  ['Proxy Authentication Required (407)', 'UND_ERR_ABORTED, the proxy answered 407.'],
  // The time must be linear: an earlier pattern needed minutes for this text.
  ['proxy '.repeat(200_000), 'UND_ERR_ABORTED, the proxy does not connect to it.'],
])('the refusal of a proxy is in the sentence of a reason', (message, expected) => {
  const reason = new UpstreamReason(message, { host: 'models.example', code: 'UND_ERR_ABORTED' })
  expect(reason.sentence).toBe(`models.example: ${expected}`)
})
