import { expect, test } from 'vitest'
import { ApiError, clientGone } from '../../../src/errors.ts'
import type { Model, ModelReply, ModelRequest } from '../../../src/models/model.ts'
import { Breaker } from '../../../src/models/routing/breaker.ts'
import { Candidate } from '../../../src/models/routing/candidate.ts'
import { workAtOnce } from '../../../src/work/work.ts'
import { TestClock } from '../../support/clock.ts'

const pauseMs = 1000

const request: ModelRequest = {
  body: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] },
  persona: { name: null, card: null, userName: 'User' },
  work: workAtOnce(),
}

const completion: ModelReply['completion'] = {
  id: 'c',
  object: 'chat.completion',
  created: 0,
  model: 'm',
  choices: [],
}

const broken = () => new ApiError(502, 'upstream_error', 'It failed.')

/** A model behind a breaker that opens after one failure. `fail` ends a request, and resolves when the breaker knows. */
function modelForThisTest() {
  const clock = new TestClock()
  const breaker = new Breaker(clock, { failures: 1, pause: pauseMs })
  let onAsked = (_answer: PromiseWithResolvers<ModelReply>) => {}
  const complete = () => {
    const answer = Promise.withResolvers<ModelReply>()
    onAsked(answer)
    return answer.promise
  }
  const model: Model = { ignoredParameters: new Set(), complete, async *stream() {} }
  const candidate = new Candidate({ name: 'm', upstreamId: 'm', retries: 1 }, model, breaker, undefined, clock)
  /** Resolves when the model is asked. */
  const ask = async () => {
    const asked = Promise.withResolvers<PromiseWithResolvers<ModelReply>>()
    onAsked = asked.resolve
    const reply = candidate.complete(request, new AbortController().signal)
    const { reject, resolve } = await Promise.race([asked.promise, reply.then(() => asked.promise)])
    return {
      fail: async (error: ApiError) => {
        reject(error)
        await expect(reply).rejects.toMatchObject({ code: error.code })
      },
      succeed: async () => {
        resolve({ completion })
        await reply
      },
    }
  }
  return { clock, breaker, ask }
}

test.each([
  ['whose client leaves', clientGone()],
  ['that fails', broken()],
])('a request from before the breaker opened %s does not end the probe', async (_what, error) => {
  const { clock, breaker, ask } = modelForThisTest()
  const older = await ask()
  await (await ask()).fail(broken())
  clock.advance(pauseMs)
  const probe = await ask()
  expect(breaker.state).toBe('probing')
  await older.fail(error)
  clock.advance(pauseMs)
  expect(breaker.state).toBe('probing')
  await expect(ask()).rejects.toMatchObject({ code: 'model_unavailable' })
  await probe.succeed()
  expect(breaker.state).toBe('closed')
})

test('a probe that became needless does not end the next probe', async () => {
  const { clock, breaker, ask } = modelForThisTest()
  const older = await ask()
  await (await ask()).fail(broken())
  clock.advance(pauseMs)
  const first = await ask()
  await older.succeed()
  expect(breaker.state).toBe('closed')
  await (await ask()).fail(broken())
  clock.advance(pauseMs)
  await ask()
  await first.fail(clientGone())
  expect(breaker.state).toBe('probing')
})
