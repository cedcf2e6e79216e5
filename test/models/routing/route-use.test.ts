import { expect, it } from 'vitest'
import { ApiError } from '../../../src/errors.ts'
import { Candidate } from '../../../src/models/routing/candidate.ts'
import { InFlightRequests, Route } from '../../../src/models/routing/route.ts'
import { workAtOnce } from '../../../src/work/work.ts'

it('the models of a route stay open until its last use has ended', async () => {
  const inFlight = new InFlightRequests()
  const model = {
    ignoredParameters: null,
    complete: () => Promise.reject(new Error('is not asked')),
    stream: () => {
      throw new Error('is not asked')
    },
  }
  const route = new Route('m', [new Candidate({ name: 'm', upstreamId: 'm' }, model, null)], inFlight)
  route.enter()
  route.enter()
  let isClosed = false
  const none = inFlight.untilNone().then(() => {
    isClosed = true
  })
  route.leave()
  await Promise.resolve()
  expect(isClosed).toBe(false)
  route.leave()
  await none
})

it('a request enters once, for the first candidate that can get it, and a refusal at the entry ends the request', async () => {
  const asked: string[] = []
  const candidateOf = (name: string) => {
    const model = {
      ignoredParameters: null,
      async complete() {
        asked.push(name)
        throw new ApiError(502, 'upstream_error', 'It failed.')
      },
      async *stream() {},
    }
    return new Candidate({ name, upstreamId: name, retries: 0 }, model, null)
  }
  const route = new Route('list', ['small', 'broken', 'last'].map(candidateOf), new InFlightRequests())
  const requestFor = ({ traits: { name } }: Candidate) => {
    if (name === 'small') throw new ApiError(400, 'context_length_exceeded', 'It is too long.')
    const body = { model: name, messages: [{ role: 'user' as const, content: 'Hello' }] }
    return { body, persona: { name: null, card: null, userName: 'User' }, work: workAtOnce() }
  }
  const { signal } = new AbortController()
  const entered: string[] = []
  const enter = ({ traits }: Candidate) => void entered.push(traits.name)
  await expect(route.complete({ requestFor, signal, enter })).rejects.toMatchObject({ status: 502 })
  expect({ entered, asked }).toStrictEqual({ entered: ['broken'], asked: ['broken', 'last'] })
  asked.length = 0
  const refuse = () => Promise.reject(new ApiError(502, 'upstream_error', 'No entry.'))
  await expect(route.complete({ requestFor, signal, enter: refuse })).rejects.toThrow('No entry.')
  expect(asked).toStrictEqual([])
})
