import { expect, it } from 'vitest'
import type { Model } from '../../../src/models/model.ts'
import { UpstreamModelsCache } from '../../../src/models/upstream-models-cache.ts'
import { TestClock } from '../../support/clock.ts'

const maxFirstWaitMs = 2000

/** A model whose upstream lists its ids when the test says so. */
function modelWith(list: () => Promise<readonly string[]>): Model {
  return { ignoredParameters: new Set(), complete: async () => expect.fail(), stream: () => expect.fail(), list }
}

it('the first request waits for the list of an upstream', async () => {
  const cache = new UpstreamModelsCache(new TestClock())
  const { promise, resolve } = Promise.withResolvers<readonly string[]>()
  const asked = cache.idsOf(
    'far/*',
    modelWith(() => promise),
  )
  resolve(['a'])
  expect(await asked).toEqual(['a'])
})

it('requests wait at most two seconds for an upstream that is silent, all of them together', async () => {
  const clock = new TestClock()
  const cache = new UpstreamModelsCache(clock)
  const { promise, resolve } = Promise.withResolvers<readonly string[]>()
  const model = modelWith(() => promise)
  const asked = [cache.idsOf('far/*', model), cache.idsOf('far/*', model)]
  clock.advance(maxFirstWaitMs)
  expect(await Promise.all(asked)).toEqual([[], []])
  expect(await cache.idsOf('far/*', model)).toEqual([])
  resolve(['a'])
  await promise
  await expect.poll(() => cache.idsOf('far/*', model)).toEqual(['a'])
})

it('no request waits when a list is read again', async () => {
  const clock = new TestClock()
  const cache = new UpstreamModelsCache(clock)
  const answers = [Promise.resolve(['a']), new Promise<readonly string[]>(() => {})]
  const model = modelWith(() => answers.shift() ?? expect.fail())
  expect(await cache.idsOf('far/*', model)).toEqual(['a'])
  clock.advance(3_600_000)
  expect(await cache.idsOf('far/*', model)).toEqual(['a'])
  expect(answers).toEqual([])
  cache.close()
})
