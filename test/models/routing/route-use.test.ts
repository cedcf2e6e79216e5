import { expect, it } from 'vitest'
import { Candidate } from '../../../src/models/routing/candidate.ts'
import { InFlightRequests, Route } from '../../../src/models/routing/route.ts'

it('the models of a route stay open until its work has ended, and may close after work that failed', async () => {
  const inFlight = new InFlightRequests()
  const model = {
    ignoredParameters: null,
    complete: () => Promise.reject(new Error('is not asked')),
    stream: () => {
      throw new Error('is not asked')
    },
  }
  const route = new Route('m', [new Candidate({ name: 'm', upstreamId: 'm' }, model, null)], inFlight)
  const { promise: work, reject } = Promise.withResolvers<never>()
  const using = route.use(() => work)
  let isClosed = false
  const none = inFlight.untilNone().then(() => {
    isClosed = true
  })
  await Promise.resolve()
  expect(isClosed).toBe(false)
  reject(new Error('given up'))
  await expect(using).rejects.toThrow('given up')
  await none
})
