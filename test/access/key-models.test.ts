import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Key } from '../../src/access/access.ts'
import type { KeyBody } from '../../src/access/key-body.ts'
import type { ModelList } from '../../src/access/model-lists.ts'
import { conservatory } from '../support/command.ts'
import { expectError } from '../support/http.ts'
import { startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'

let service: TestService
let panels = 0

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

interface Panel {
  readonly account: string
  readonly secret: string
  ask(path: string, json?: unknown, method?: string): Promise<Response>
  make(models?: ModelList | null): Promise<KeyBody>
}

/** Creates an account with a key of the scope `keys` that may use these models; null for all. */
async function panelWith(models: ModelList | null): Promise<Panel> {
  const { access } = await storesForThisTest(service.dataDirectory)
  const account = `panel ${++panels}`
  await access.createAccount(account)
  const { secret } = await access.createKey({ account, scopes: ['chat', 'keys'], models })
  const ask = (path: string, json?: unknown, method?: string) =>
    service.request(path, {
      headers: { authorization: `Bearer ${secret}` },
      ...(json === undefined ? {} : { json }),
      ...(method === undefined ? {} : { method }),
    })
  return {
    account,
    secret,
    ask,
    async make(wanted) {
      const answer = await ask('/keys', { scopes: ['chat'], ...(wanted === undefined ? {} : { models: wanted }) })
      expect(answer.status).toBe(201)
      const made: KeyBody = JSON.parse(await answer.text())
      return made
    },
  }
}

async function modelsIn(panel: Panel): Promise<readonly (ModelList | null)[]> {
  const { data }: { data: KeyBody[] } = JSON.parse(await (await panel.ask('/keys')).text())
  return data.map(({ models }) => models)
}

describe('POST /keys', () => {
  it('creates a key with a list, which every reply shows and its successor keeps', async () => {
    const panel = await panelWith(null)
    const made = await panel.make([' understudy', 'local/*', 'understudy'])
    expect(made.models).toStrictEqual(['understudy', 'local/*'])
    expect(await (await panel.ask(`/keys/${made.id}`)).json()).toMatchObject({ models: ['understudy', 'local/*'] })
    const rotated = await panel.ask(`/keys/${made.id}/rotate`, { overlap_seconds: 0 })
    expect([rotated.status, await rotated.json()]).toMatchObject([201, { models: ['understudy', 'local/*'] }])
    // Keys that were created in the same second are listed in the order of their random ids.
    const both = await modelsIn(panel)
    expect(both).toHaveLength(2)
    expect(both).toEqual(expect.arrayContaining([null, ['understudy', 'local/*']]))
  })

  it('creates a key for all models without a list, with null, and with "*" in the list', async () => {
    const panel = await panelWith(null)
    const made = [await panel.make(), await panel.make(null), await panel.make(['understudy', '*'])]
    expect(made.map(({ models }) => models)).toStrictEqual([null, null, null])
  })

  it.each([
    [[]],
    ['understudy'],
    [5],
    [{ understudy: true }],
    [['understudy', 5]],
    [['understudy', null]],
    [['']],
    [['under*']],
    [['a/*/b']],
    [['a\u0000b']],
    [['\ud800']],
    [Array.from({ length: 101 }, (_, at) => `model ${at}`)],
  ])('refuses the list %j, and creates no key', async (models) => {
    const panel = await panelWith(null)
    const refusal = await expectError(await panel.ask('/keys', { scopes: ['chat'], models }), 'chat', 400)
    expect(refusal.param).toBe(Array.isArray(models) && models.length === 2 ? 'models[1]' : 'models')
    expect(await modelsIn(panel)).toStrictEqual([null])
  })
})

describe('a key of the scope keys with a list', () => {
  it('creates keys with models that its own list covers', async () => {
    const panel = await panelWith(['understudy', 'local/*'])
    for (const models of [['understudy'], ['local/llama', 'local/small/*'], ['local/*', 'understudy']]) {
      expect((await panel.make(models)).models).toStrictEqual(models)
    }
  })

  it('neither creates, rotates nor revokes a key with more models', async () => {
    const panel = await panelWith(['understudy', 'local/*'])
    const { access } = await storesForThisTest(service.dataDirectory)
    const { key } = await access.createKey({ account: panel.account, scopes: ['chat'], models: ['best'] })
    const before = await access.listKeys(panel.account)
    const tries = [
      ...[undefined, null, ['*'], ['best'], ['understudy', 'best'], ['understudy/*'], ['default']].map((models) =>
        panel.ask('/keys', { scopes: ['chat'], ...(models === undefined ? {} : { models }) }),
      ),
      panel.ask(`/keys/${key.id}/rotate`, { overlap_seconds: 0 }),
      panel.ask(`/keys/${key.id}`, undefined, 'DELETE'),
    ]
    for (const tried of await Promise.all(tries)) {
      const refusal = await expectError(tried, 'chat', 403)
      expect(refusal).toMatchObject({ code: 'exceeds_your_key', param: 'models' })
      expect(refusal.message).toContain('understudy, local/*')
    }
    const withoutUse = ({ lastUsed: _lastUsed, ...rest }: Key) => rest
    expect((await access.listKeys(panel.account)).map(withoutUse)).toStrictEqual(before.map(withoutUse))
  })
})

describe('lists of models on the command line', () => {
  it('are set for accounts and keys, shown, and kept by a rotation', async () => {
    const { run, access } = await commandsForThisTest()
    await run('accounts', 'create', 'ann', '--models', 'best,local/*')
    await run('keys', 'create', '--account', 'ann', '--scopes', 'chat', '--models', ' best , local/llama')
    const [made] = await access.listKeys()
    expect(made).toMatchObject({ models: ['best', 'local/llama'], account: { models: ['best', 'local/*'] } })
    await run('keys', 'rotate', made?.prefix ?? '', '--overlap', '60')
    await run('accounts', 'limit', 'ann', '--limit', 'plants=5')
    const [keys, accounts, keyTable, accountTable] = await Promise.all([
      run('keys', 'list', '--json'),
      run('accounts', 'list', '--json'),
      run('keys', 'list'),
      run('accounts', 'list'),
    ])
    const listed: readonly { models: ModelList | null }[] = JSON.parse(keys.stdout)
    expect(listed.map(({ models }) => models)).toStrictEqual([
      ['best', 'local/llama'],
      ['best', 'local/llama'],
    ])
    expect(JSON.parse(accounts.stdout)).toMatchObject([{ models: ['best', 'local/*'], limits: { plants: 5 } }])
    expect(keyTable.stdout).toContain(' best,local/llama ')
    expect(accountTable.stdout).toContain(' best,local/* ')
  })

  it('are refused if they are malformed or for an unknown account or key, and nothing is created or changed', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('ann', {}, ['best'])
    const { key } = await access.createKey({ account: 'ann', scopes: ['chat'], models: ['best'] })
    const tries = ['', ' ', ',', 'best,', 'b*', '/*', '**', 'none'].flatMap((models) => [
      run('keys', 'create', '--account', 'ann', '--scopes', 'chat', '--models', models),
      run('accounts', 'create', 'bob', '--models', models),
      run('keys', 'models', key.prefix, models),
      run('accounts', 'models', 'ann', models),
    ])
    for (const { code, stdout, stderr } of await Promise.all(tries)) {
      expect([code, stdout]).toStrictEqual([2, ''])
      expect(stderr).toMatch(/ See: conservatory (keys|accounts) (create|models) --help\n$/)
    }
    expect((await access.listKeys()).map(({ models }) => models)).toStrictEqual([['best']])
    expect((await access.listAccounts()).map(({ name, models }) => [name, models])).toStrictEqual([['ann', ['best']]])
    expect((await run('accounts', 'models', 'nobody', 'best')).stderr).toMatch(/^There is no account "nobody"/)
    expect((await run('keys', 'models', 'cv_zzzz', 'best')).stderr).toMatch(/^There is no such key/)
  })
})

async function commandsForThisTest() {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const { access } = await storesForThisTest(path)
  return { access, run: (...args: readonly string[]) => conservatory(args, { DATA_DIR: path }) }
}
