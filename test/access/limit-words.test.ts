import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { conservatory } from '../support/command.ts'
import { projectFolder } from '../support/process.ts'
import { serviceForThisTest } from '../support/service.ts'
import { onceKnown, storesForThisTest } from '../support/test-database.ts'

const plantScopes = ['plants:read', 'plants:write'] as const

it('"none" lifts the limit of an account, "default" restores that of LIMITS, and limits of a key always apply', async () => {
  const service = await serviceForThisTest({ LIMITS: 'plants=2' })
  const key = await service.makeKey('ann', plantScopes)
  const { access } = await storesForThisTest(service.dataDirectory)
  const prefix = (await access.listKeys('ann'))[0]?.prefix ?? ''
  const run = async (...args: readonly string[]) => {
    const ended = await conservatory(args, { DATA_DIR: service.dataDirectory })
    expect(ended.code).toBe(0)
    return ended.stderr.trimEnd()
  }
  const add = async () => {
    const headers = { authorization: `Bearer ${key}` }
    return (await service.request('/plants', { json: { name: 'Fern' }, headers })).status
  }
  /** Waits until the service has seen a change by a command. */
  const comesTo = (status: number) => onceKnown(async () => expect(await add()).toBe(status))
  const limitKey = (value: number | string) => run('keys', 'limit', prefix, '--limit', `plants=${value}`)
  const limitAccount = (value: number | string) => run('accounts', 'limit', 'ann', '--limit', `plants=${value}`)

  expect([await add(), await add(), await add()]).toStrictEqual([200, 200, 429])
  expect(await limitAccount('none')).toBe('The limits of the account "ann" are now: plants=none, else those of LIMITS.')
  await comesTo(200)
  for (const word of ['none', 'default']) {
    await limitKey(1)
    await comesTo(429)
    expect(await limitKey(word)).toBe(`The limits of the key ${prefix} are now: none.`)
    expect((await access.listKeys('ann'))[0]?.limits).toStrictEqual({})
    await comesTo(200)
  }
  expect(await limitAccount('default')).toBe('The limits of the account "ann" are now: those of LIMITS.')
  await comesTo(429)
  // An account's own value may be higher than that of LIMITS.
  await limitAccount(1000)
  await comesTo(200)
})

it('accounts and keys can be created with the limits "none" and "default"', async () => {
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

it('no route changes accounts, so no request can change an account’s limit', () => {
  const document: { readonly paths: object } = JSON.parse(
    readFileSync(join(projectFolder, 'openapi/conservatory.json'), 'utf8'),
  )
  expect(Object.keys(document.paths).filter((path) => path.includes('account'))).toEqual([])
})
