import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { AccessStore } from '../../src/access/access.ts'
import { digestKey } from '../../src/access/key.ts'
import { KeyUses } from '../../src/access/keys-in-use.ts'
import { conservatory, type Ended } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, startTestService, temporaryFolder } from '../support/service.ts'
import { onceKnown, storesForThisTest } from '../support/test-database.ts'

type Run = (...args: readonly string[]) => Promise<Ended>

/** Opens the accounts and keys of a data folder, by default a new one. @returns a function that runs commands, and the store */
async function commandsForThisTest(folder = newFolder()): Promise<{ readonly run: Run; readonly access: AccessStore }> {
  const { access } = await storesForThisTest(folder)
  return { run: (...args) => conservatory(args, { DATA_DIR: folder }), access }
}

function newFolder(): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  return path
}

function expectRefused(ended: Ended, sentence: string | RegExp, code: 1 | 2 = 1): void {
  expect(ended).toMatchObject({ code, stdout: '' })
  expect(ended.stderr.trimEnd()).toMatch(sentence)
  expect(ended.stderr.trimEnd()).not.toContain('\n')
}

describe('keys rotate', () => {
  it('prints only the new key; during the overlap both keys work, then only the new one', async () => {
    const service = await serviceForThisTest()
    const { run, access } = await commandsForThisTest(service.dataDirectory)
    await access.createAccount('ann')
    const expires = Math.floor(Date.now() / 1000) + 3600
    const limits = { plants: 5 }
    const made = await access.createKey({
      account: 'ann',
      scopes: ['chat', 'plants:read'],
      name: 'phone',
      expires,
      limits,
    })
    const rotated = await run('keys', 'rotate', made.key.prefix, '--overlap', '60')
    expect(rotated).toMatchObject({ code: 0, stdout: expect.stringMatching(/^cv_[0-9A-Za-z]{38}\n$/) })
    const next = rotated.stdout.trim()
    expect(rotated.stderr).not.toContain(next.slice(7))
    const key = await access.findKey(digestKey(next))
    expect(key).toMatchObject({ name: 'phone', scopes: ['chat', 'plants:read'], expires, limits, revoked: null })
    expect(key?.account.name).toBe('ann')
    const statuses = async () => {
      const ask = (authorization: string) => service.request('/models', { headers: { authorization } })
      return [(await ask(made.secret)).status, (await ask(next)).status]
    }
    expect(await statuses()).toEqual([200, 200])
    expectRefused(await run('keys', 'rotate', made.secret, '--overlap', '9'), /has been rotated already/)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
    onTestFinished(() => void vi.useRealTimers())
    expect(await statuses()).toEqual([401, 200])
  })

  it('is refused for invalid overlaps, and for keys that have ended', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('ann')
    const make = async (expires?: number) =>
      await access.createKey({ account: 'ann', scopes: ['chat'], ...(expires === undefined ? {} : { expires }) })
    const [good, revoked, expired] = [await make(), await make(), await make(1)]
    await access.revokeKey(revoked.secret)
    const overlaps = ['=-1', '=1.5', '=31536001', '=soon', '=', '=1e3']
    const ended = await Promise.all([
      ...overlaps.map((overlap) => run('keys', 'rotate', good.secret, `--overlap${overlap}`)),
      run('keys', 'rotate', revoked.secret, '--overlap', '0'),
      run('keys', 'rotate', expired.secret, '--overlap', '0'),
      run('keys', 'rotate', 'cv_none', '--overlap', '0'),
    ])
    const malformed = /^Option '--overlap <seconds>' argument '.*' is invalid\. Give whole seconds from 0 to 31536000/
    for (const one of ended.slice(0, overlaps.length)) expectRefused(one, malformed, 2)
    const sentences = [/is revoked, so/, /has expired, so/, /no such key/]
    for (const [index, one] of ended.slice(overlaps.length).entries()) expectRefused(one, sentences[index] ?? '')
    expect(await access.listKeys()).toHaveLength(3)
  })
})

describe('limits', () => {
  it('of keys and accounts are set at their creation, changed later, and listed', async () => {
    const { run, access } = await commandsForThisTest()
    expect((await run('accounts', 'create', 'ann', '--limit', 'plants=100', '--limit', 'tokens_per_day=5')).code).toBe(
      0,
    )
    const limits = ['--limit', 'requests_per_minute=60', '--limit', 'chat_at_once=0']
    const made = await run('keys', 'create', '--account', 'ann', '--scopes', 'chat', ...limits)
    const prefix = made.stdout.slice(0, 11)
    const changed = await Promise.all([
      run('accounts', 'limit', 'ann', '--limit', 'plants=none', '--limit', 'tokens_per_month=9'),
      run('keys', 'limit', prefix, '--limit', 'chat_at_once=none', '--limit', 'requests_per_minute=30'),
    ])
    expect(changed.map(({ code }) => code)).toEqual([0, 0])
    expect((await access.listAccounts())[0]?.limits).toEqual({
      plants: 'none',
      tokens_per_day: 5,
      tokens_per_month: 9,
    })
    const [json, table] = await Promise.all([run('keys', 'list', '--json'), run('keys', 'list')])
    expect(JSON.parse(json.stdout)[0].limits).toEqual({ requests_per_minute: 30 })
    expect(table.stdout).toContain('requests_per_minute=30')
  })

  it('that are invalid are refused, and nothing is created or changed', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('ann', { plants: 5 })
    const { key } = await access.createKey({ account: 'ann', scopes: ['chat'] })
    const wrong = ['speed=5', 'plants', 'plants=-1', 'plants=1.5', 'plants=9999999999999', 'plants=', 'plants=1=2']
    const ended = await Promise.all([
      ...wrong.map((limit) => run('keys', 'create', '--account', 'ann', '--scopes', 'chat', '--limit', limit)),
      run('keys', 'limit', key.prefix, '--limit', 'plants=1', '--limit', 'plants=none'),
      run('keys', 'limit', key.prefix),
      run('accounts', 'limit', 'nobody', '--limit', 'plants=1'),
      run('accounts', 'create', 'bob', '--limit', 'plants=None'),
    ])
    const unknown = ended.find(({ code }) => code === 1)
    if (unknown) expectRefused(unknown, /^There is no account "nobody"/)
    for (const one of ended) if (one !== unknown) expectRefused(one, / See: conservatory [a-z ]+ --help$/, 2)
    expect((await access.listKeys()).map(({ limits }) => limits)).toEqual([{}])
    expect((await access.listAccounts()).map(({ name, limits }) => [name, limits])).toEqual([['ann', { plants: 5 }]])
  })
})

describe('accounts suspend', () => {
  it('refuses the account’s keys with 403 in the error shapes of plants and chat, until the account is resumed', async () => {
    const service = await serviceForThisTest()
    const { run } = await commandsForThisTest(service.dataDirectory)
    const key = await service.makeKey('ann')
    const headers = { authorization: `Bearer ${key}` }
    expect((await run('accounts', 'suspend', 'ann')).code).toBe(0)
    const refused = await onceKnown(async () => expectError(await service.request('/models', { headers }), 'chat', 403))
    expect(refused.code).toBe('account_suspended')
    expect((await expectError(await service.request('/plants', { headers }), 'plants', 403)).message).toMatch(
      /suspended/,
    )
    expectRefused(await run('accounts', 'suspend', 'ann'), 'The account "ann" is suspended already.')
    expect((await run('accounts', 'list')).stdout).toMatch(/^ann .*Z {2}20\d\d-.*Z {2}-$/m)
    expect((await run('accounts', 'resume', 'ann')).code).toBe(0)
    await onceKnown(async () => expect((await service.request('/plants', { headers })).status).toBe(200))
    expectRefused(await run('accounts', 'resume', 'ann'), 'The account "ann" is not suspended.')
    expectRefused(await run('accounts', 'resume', 'nobody'), /^There is no account "nobody"\./)
  })
})

describe('the last working key with the scope admin', () => {
  it('can neither be revoked nor lose its account before there is another such key', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('owner')
    await access.createAccount('ann')
    const { key } = await access.createKey({ account: 'owner', scopes: ['chat', 'admin'] })
    await access.createKey({ account: 'ann', scopes: ['admin'], expires: 1 })
    const take: readonly (readonly string[])[] = [
      ['keys', 'revoke', key.prefix],
      ['accounts', 'suspend', 'owner'],
      ['accounts', 'delete', 'owner'],
    ]
    for (const ended of await Promise.all(take.map((args) => run(...args)))) {
      expectRefused(ended, 'No working key with the scope admin would be left. Make another one first.')
    }
    expect((await access.listAccounts()).map(({ suspended }) => suspended)).toEqual([null, null])
    // A rotation is allowed, since the new key has the scope too.
    const next = await run('keys', 'rotate', key.prefix, '--overlap', '0')
    expect(next.code).toBe(0)
    await access.createKey({ account: 'ann', scopes: ['admin'] })
    expect((await run('accounts', 'suspend', 'owner')).code).toBe(0)
    expectRefused(await run('accounts', 'suspend', 'ann'), /^No working key/)
  })
})

describe('last_used', () => {
  it('is shown by GET /keys at once, and by the command line once the service has written it or has closed', async () => {
    const folder = newFolder()
    const service = await startTestService({ DATA_DIR: folder })
    const { run, access } = await commandsForThisTest(folder)
    const before = Math.floor(Date.now() / 1000)
    const key = await service.makeKey('owner', ['chat'])
    const used = async () => (await access.findKey(digestKey(key)))?.lastUsed ?? null
    expect((await service.request('/models', { headers: { authorization: key } })).status).toBe(200)
    expect(await used()).toBeNull()
    const list: { data: { prefix: string; last_used: number }[] } = JSON.parse(
      await (await service.request('/keys')).text(),
    )
    const lastUsed = list.data.find(({ prefix }) => prefix === key.slice(0, 11))?.last_used ?? 0
    expect(lastUsed).toBeGreaterThanOrEqual(before)
    await onceKnown(async () => expect(await used()).toBe(lastUsed))
    await eventually(() => expect(Date.now() / 1000).toBeGreaterThan(lastUsed + 1))
    expect((await service.request('/models', { headers: { authorization: key } })).status).toBe(200)
    await service.close()
    const listed: { prefix: string; last_used: number }[] = JSON.parse((await run('keys', 'list', '--json')).stdout)
    expect(listed.find(({ prefix }) => prefix === key.slice(0, 11))?.last_used).toBeGreaterThan(lastUsed)
  })

  it('is written once a minute, for all keys together, however often keys are used', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const written: string[][] = []
    const uses = new KeyUses({
      async noteUses(noted) {
        written.push([...noted.keys()])
      },
    })
    for (let second = 0; second < 200; second++) {
      for (let count = 0; count < 10; count++) uses.note(`key_${count % 2}`)
      await vi.advanceTimersByTimeAsync(1000)
    }
    expect(written).toEqual([1, 2, 3].map(() => ['key_0', 'key_1']))
  })
})
