import { expect, it } from 'vitest'
import { conservatory } from '../support/command.ts'
import { serviceForThisTest } from '../support/service.ts'
import { onceKnown, storesForThisTest } from '../support/test-database.ts'

const chats = ['plants:read', 'plants:write'] as const

it('none lifts the limit of an account, default gives it that of LIMITS back, and a key’s own holds all the while', async () => {
  const service = await serviceForThisTest({ LIMITS: 'plants=2' })
  const key = await service.makeKey('ann', chats)
  const { access } = await storesForThisTest(service.dataDirectory)
  const prefix = (await access.listKeys('ann'))[0]?.prefix ?? ''
  const run = async (...args: readonly string[]) => {
    const ended = await conservatory(args, { DATA_DIR: service.dataDirectory })
    expect(ended.code).toBe(0)
    return ended.stderr.trimEnd()
  }
  let plants = 0
  /** Adds plants until none is taken any more, and tells how many there are then; at most so many. */
  const fill = async (most: number) => {
    for (; plants < most; plants++) {
      const { status } = await service.request('/plants', {
        json: { name: 'Fern' },
        headers: { authorization: `Bearer ${key}` },
      })
      if (status === 429) return plants
      expect(status).toBe(200)
    }
    return plants
  }
  const filledTo = (count: number, most: number) => onceKnown(async () => expect(await fill(most)).toBe(count))

  await filledTo(2, 10)
  expect(await run('accounts', 'limit', 'ann', '--limit', 'plants=none')).toBe(
    'The limits of the account "ann" are now: plants=none, else those of LIMITS.',
  )
  await filledTo(4, 4)
  await run('keys', 'limit', prefix, '--limit', 'plants=5')
  await filledTo(5, 10)
  for (const word of ['none', 'default']) {
    await run('keys', 'limit', prefix, '--limit', 'plants=5')
    expect(await run('keys', 'limit', prefix, '--limit', `plants=${word}`)).toBe(
      `The limits of the key ${prefix} are now: none.`,
    )
    expect((await access.listKeys('ann'))[0]?.limits).toStrictEqual({})
  }
  await filledTo(7, 7)
  expect(await run('accounts', 'limit', 'ann', '--limit', 'plants=default')).toBe(
    'The limits of the account "ann" are now: those of LIMITS.',
  )
  await filledTo(7, 10)
  // An account's value may be higher than that of LIMITS too.
  await run('accounts', 'limit', 'ann', '--limit', 'plants=8')
  await filledTo(8, 10)
})

it('accounts and keys are made with both words', async () => {
  const service = await serviceForThisTest()
  const run = (...args: readonly string[]) => conservatory(args, { DATA_DIR: service.dataDirectory })
  const limits = ['--limit', 'plants=none', '--limit', 'characters=default', '--limit', 'tokens_per_day=5']
  expect((await run('accounts', 'create', 'ann', ...limits)).code).toBe(0)
  expect((await run('keys', 'create', '--account', 'ann', '--scopes', 'chat', ...limits)).code).toBe(0)
  const { access } = await storesForThisTest(service.dataDirectory)
  const [key] = await access.listKeys('ann')
  expect(key?.account.limits).toStrictEqual({ plants: 'none', tokens_per_day: 5 })
  expect(key?.limits).toStrictEqual({ tokens_per_day: 5 })
  expect((await run('accounts', 'list')).stdout).toMatch(/^ann .* plants=none,tokens_per_day=5$/m)
})
