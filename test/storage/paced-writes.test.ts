import { setImmediate as endOfTurn } from 'node:timers/promises'
import { expect, it, onTestFinished, vi } from 'vitest'
import { KeyUses } from '../../src/access/keys-in-use.ts'
import { PacedWrites } from '../../src/storage/paced-writes.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { Scheduler } from '../../src/work.ts'
import { startTestService } from '../support/service.ts'

/** Writes that each take 5 ms of the test's clock, and the number of writes that were done at the end of each turn. */
function writesOf(isServing: boolean) {
  let ms = 0
  let done = 0
  const paced = new PacedWrites()
  if (isServing) paced.begin(new Scheduler(() => ms))
  const write = () => {
    ms += 5
    return ++done
  }
  return { paced, write, count: () => done }
}

it('a turn of the event loop does only as many of a hundred parallel writes as fit into 15 ms', async () => {
  const { paced, write, count } = writesOf(true)
  const all = Promise.all(Array.from({ length: 100 }, (_, index) => paced.run(index % 7, write)))
  expect(count()).toBe(3)
  for (let before = 3; count() < 100; before = count()) {
    await endOfTurn()
    expect(count() - before).toBeLessThanOrEqual(3)
  }
  expect(new Set(await all).size).toBe(100)
})

it('the write of an account does not wait for all writes of another account', async () => {
  const { paced, write, count } = writesOf(true)
  const many = Array.from({ length: 100 }, () => paced.run(1, write))
  await paced.run(2, write)
  expect(count()).toBeLessThan(10)
  await Promise.all(many)
})

it('a command writes immediately, and an error of a write reaches only its caller', async () => {
  const { paced, write, count } = writesOf(false)
  const failed = paced.run(1, () => {
    throw new Error('full')
  })
  void paced.run(1, write)
  expect(count()).toBe(1)
  await expect(failed).rejects.toThrow('full')
})

it('a new key waits as a write of the account that creates the key', async () => {
  const run = vi.spyOn(PacedWrites.prototype, 'run')
  onTestFinished(() => run.mockRestore())
  const service = await startTestService({ DATABASE_URL: '' })
  onTestFinished(service.close)
  const key = await service.makeKey('ann', ['keys', 'chat'])
  run.mockClear()
  const headers = { authorization: `Bearer ${key}` }
  expect((await service.request('/keys', { headers, json: { scopes: ['chat'] } })).status).toBe(201)
  expect((await service.request('/keys', { json: { scopes: ['chat'] } })).status).toBe(201)
  const [ofAnn, ofOwner] = run.mock.calls.map(([account]) => account)
  expect(ofAnn).toBeGreaterThan(0)
  expect(ofOwner).toBeGreaterThan(0)
  expect(ofAnn).not.toBe(ofOwner)
})

it('the last uses of 1,200 keys are three writes, and a later flush waits for all of them', async () => {
  const sizes: number[] = []
  const uses = new KeyUses({
    async noteUses(noted) {
      await endOfTurn()
      sizes.push(noted.size)
    },
  })
  for (let index = 0; index < 1200; index++) uses.note(`key_${index}`)
  void uses.flush()
  await uses.flush()
  expect(sizes).toEqual([500, 500, 200])
})

it('the uses of keys and characters wait for their share of the time', async () => {
  const run = vi.spyOn(PacedWrites.prototype, 'run')
  onTestFinished(() => run.mockRestore())
  const { access, characters } = openSqliteStores(':memory:')
  await access.noteUses(new Map([['key_1', 5]]))
  await characters.noteUses([{ account: 1, name: 'Fern', digest: 'a' }], 5)
  expect(run).toHaveBeenCalledTimes(2)
})
