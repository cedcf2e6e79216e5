import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { asked, complete, failureFrom, vendorForThisTest } from '../../support/ai-sdk.ts'
import { recorded } from '../../support/replay.ts'
import type { Script } from '../../support/upstream.ts'

const packed =
  (text: string, status = 200, headers: Record<string, string> = {}): Script =>
  (response) => {
    const head = { 'content-type': 'application/json', 'content-encoding': 'gzip', ...headers }
    response.writeHead(status, head).end(gzipSync(text))
  }
const answer = JSON.stringify(recorded('anthropic/text.json').body)

test('a compressed answer is read, and its bound holds for the decompressed bytes', async () => {
  const { model } = await vendorForThisTest('anthropic', [packed(answer), packed('a'.repeat(17 * 1024 ** 2))])
  expect((await complete(model, asked())).choices[0]?.message.content).not.toBe('')
  expect(await failureFrom(complete(model, asked()))).toMatchObject({
    code: 'upstream_error',
    message: expect.stringMatching(/more at once/),
  })
})

test('retry-after-ms of a compressed answer is passed on', async () => {
  const { model } = await vendorForThisTest('anthropic', [packed('{}', 429, { 'retry-after-ms': '250' })])
  expect((await failureFrom(complete(model, asked()))).headers).toEqual({ 'retry-after': '1', 'retry-after-ms': '250' })
})
