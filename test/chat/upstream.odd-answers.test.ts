import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Meaning, meaningOfChat, meaningOfResponse } from '../support/meaning.ts'
import { oddBody, oddStream } from '../support/odd-streams.ts'
import { often } from '../support/often.ts'
import { pieces } from '../support/upstream.ts'
import { post, service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile()

/** Asks in each way for the same answer. */
async function meanings() {
  const respond = (stream: boolean) =>
    service.request('/responses', { json: { model: 'gpt-test', input: 'Hello', stream } })
  const chat = async (body: object) => meaningOfChat(await post({ stream: true, ...body }), true)
  return Promise.all([
    chat({}),
    chat({ stream_options: { include_usage: true } }),
    chat({ n: 2 }),
    respond(true).then((response) => meaningOfResponse(response, true)),
    post().then((response) => meaningOfChat(response, false)),
    respond(false).then((response) => meaningOfResponse(response, false)),
  ])
}

/** A failed answer that is whole has no text. */
const whole = (meaning: Meaning): Meaning => (meaning.isSuccess ? meaning : { ...meaning, text: '', calls: [] })

test.each([
  ['a stream', oddStream],
  ['one body', oddBody],
])(
  '%s of any kind means the same in every interface, whatever was asked for',
  async (_what, anyAnswer) => {
    const property = fc.asyncProperty(anyAnswer, async (sent) => {
      upstream.answer(pieces(sent))
      const [plain, withUsage, withChoices, response, ...wholes] = await meanings()
      expect([withUsage, withChoices, response]).toEqual([plain, plain, plain])
      expect(wholes).toEqual([whole(plain), whole(plain)])
    })
    await fc.assert(property, { numRuns: often(400) })
  },
  300_000,
)
