import { expect, it } from 'vitest'
import { Candidate } from '../../../src/models/routing/candidate.ts'
import { Route, Seekers } from '../../../src/models/routing/route.ts'

it('what a route asks stays open while somebody uses the route, however the use ends', async () => {
  const seekers = new Seekers()
  const model = {
    ignoredParameters: null,
    complete: () => Promise.reject(new Error('is not asked')),
    stream: () => {
      throw new Error('is not asked')
    },
  }
  const route = new Route('m', [new Candidate({ name: 'm', upstreamId: 'm' }, model, null)], seekers)
  const { promise: work, reject } = Promise.withResolvers<never>()
  const using = route.use(() => work)
  let isClosed = false
  const none = seekers.none().then(() => {
    isClosed = true
  })
  await Promise.resolve()
  expect(isClosed).toBe(false)
  reject(new Error('given up'))
  await expect(using).rejects.toThrow('given up')
  await none
})
