import { inspect } from 'node:util'
import fc from 'fast-check'
import pino from 'pino'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Guard, guardRequests } from '../../src/access/guard.ts'
import { digestKey, makeKey } from '../../src/access/key.ts'
import { createServer } from '../../src/app.ts'
import { logRequests } from '../../src/http/request-log.ts'
import { TestClock } from '../support/clock.ts'
import { until } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'

describe('failed logins', () => {
  it('of an address are delayed after the first hundred, and refused while 64 wait; good keys are never delayed', async () => {
    const clock = new TestClock()
    const service = await serviceForThisTest({}, undefined, { clock })
    const statuses: number[] = []
    const fail = async () => {
      const response = await service.request('/models', { headers: { authorization: makeKey() } })
      statuses.push(response.status)
      return response
    }
    await Promise.all(Array.from({ length: 100 }, fail))
    expect(statuses).toEqual(Array.from({ length: 100 }, () => 401))

    // Of the next 200 failures, 64 wait, and the other 136 are refused at once.
    statuses.length = 0
    const flood = Array.from({ length: 200 }, fail)
    const first = await Promise.race(flood)
    const { code, message } = await expectError(first, 'chat', 429)
    expect({ code, retryAfter: first.headers.get('retry-after') }).toEqual({
      code: 'too_many_failed_logins',
      retryAfter: '1',
    })
    expect(message).toContain('wrong keys')
    await until(() => statuses.length === 136)
    expect(new Set(statuses)).toEqual(new Set([429]))
    const good = await service.request('/plants')
    expect(good.status).toBe(200)
    expect(statuses).toHaveLength(136)
    clock.advance(1000)
    await Promise.all(flood)
    expect(statuses.slice(136)).toEqual(Array.from({ length: 64 }, () => 401))

    const failAtPlants = () => service.request('/plants', { headers: { authorization: 'Bearer x' } })
    const slowed = failAtPlants()
    await clock.untilWaiting(1000)
    clock.advance(1000)
    await expectError(await slowed, 'plants', 401)
    // A minute after the first failure, the count starts again.
    clock.advance(60_000)
    await expectError(await failAtPlants(), 'plants', 401)
  })

  it('are only requests with unknown keys: requests without a key, or with a key without the scope, do not count', async () => {
    const service = await serviceForThisTest()
    const narrow = await service.makeKey('ann', ['chat'])
    const wrong = await Promise.all(
      Array.from({ length: 300 }, (_, index) => {
        const authorization = index % 2 === 0 ? null : `Bearer ${narrow}`
        return service.request('/plants', { headers: { authorization } })
      }),
    )
    expect(new Set(wrong.map(({ status }) => status))).toEqual(new Set([401, 403]))
  })
})

describe('a key', () => {
  it('is looked up by its digest only: no part of a right or wrong key reaches the store', async () => {
    const folder = temporaryFolder()
    onTestFinished(folder.remove)
    const { access } = await storesForThisTest(folder.path)
    await access.createAccount('ann')
    const { secret } = await access.createKey({ account: 'ann', scopes: ['chat'] })
    const asked: string[] = []
    const store = new Proxy(access, {
      get(target, name) {
        const method: unknown = Reflect.get(target, name)
        if (typeof method !== 'function') return method
        return (...values: readonly unknown[]) => {
          asked.push(inspect(values))
          return Reflect.apply(method, target, values)
        }
      },
    })
    const app = createServer(pino({ level: 'silent' }), { requestTimeoutSeconds: 1 })
    onTestFinished(() => app.close())
    const guard = new Guard(store)
    logRequests(app)
    guardRequests(app, guard)
    app.get('/', { onRequest: guard.admitApiKey }, async () => 'in')

    const place = fc.nat({ max: secret.length - 1 })
    const almost = place.map((at) => secret.slice(0, at) + (secret[at] === 'x' ? 'y' : 'x') + secret.slice(at + 1))
    const evil = fc.constantFrom("' OR 1=1 --", "x'; DROP TABLE keys; --", '%', '" OR ""="', `${secret.slice(0, 7)}%`)
    const wrong = fc.oneof(
      almost,
      evil,
      place.map((at) => secret.slice(0, at + 1)).filter((text) => text !== secret),
    )
    await fc.assert(
      fc.asyncProperty(wrong, async (text) => {
        asked.length = 0
        const { statusCode } = await app.inject({ url: '/', headers: { authorization: text } })
        expect(statusCode).toBe(401)
        expect(asked.join()).toContain(digestKey(text))
        if (text.length > 10) expect(asked.join()).not.toContain(text.slice(3))
      }),
      { numRuns: 90 },
    )
    expect((await app.inject({ url: '/', headers: { authorization: secret } })).statusCode).toBe(200)
    expect(asked.join()).not.toContain(secret.slice(3))
    expect(asked.join()).toContain(digestKey(secret))
  })
})
