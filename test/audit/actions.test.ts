import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { digestKey } from '../../src/access/key.ts'
import { type AuditAction, type AuditRecord, auditActions } from '../../src/audit/record.ts'
import { readConfig } from '../../src/config.ts'
import { openStores } from '../../src/stores/open.ts'
import { allRecords, byCommand, byKey, byService } from '../support/audit.ts'
import { conservatory } from '../support/command.ts'
import { serviceForThisTest } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'
import { isOverPostgres, settingsOf } from '../support/test-database.ts'

type Settings = Readonly<Record<string, string>>

/** With `npm run test:postgres` the engine of this run is PostgreSQL already, so PostgreSQL is not tested twice. */
const engines: readonly (readonly [name: string, open: () => Promise<Settings>])[] = [
  ['the engine of this run', async () => ({})],
  ...(isOverPostgres ? [] : [['PostgreSQL', async () => ({ DATABASE_URL: await newMigratedDatabase() })] as const]),
]

/** Actions of the service itself, and actions without an account: test/audit/database.test.ts has them. */
const elsewhere: readonly AuditAction[] = [
  'character.purged',
  'database.restored',
  'database.migrated',
  'models.reloaded',
]

interface Step {
  readonly action: AuditAction
  readonly way: 'route' | 'command'
  /** Runs the step. @returns further expected fields of the record */
  run(): Promise<Readonly<Record<string, unknown>>>
}

const card = (name: string, description: string) =>
  JSON.stringify({ spec: 'chara_card_v2', spec_version: '2.0', data: { name, description } })

/** A data folder with a service, functions for requests and commands, and every secret that was shown. */
async function setUp(settings: Settings) {
  const service = await serviceForThisTest(settings)
  const folder = service.dataDirectory
  const place = { ...(await settingsOf(folder)), ...settings }
  const stores = await openStores(readConfig(place))
  onTestFinished(() => stores.close())
  const secrets = [service.key]
  const run = async (line: string): Promise<string> => {
    const ended = await conservatory(line.split(' '), { DATA_DIR: folder, ...settings })
    expect(ended, line).toMatchObject({ code: 0 })
    if (/^keys (create|rotate)/.test(line)) secrets.push(ended.stdout.trim())
    return ended.stdout
  }
  const ask = async (method: string, path: string, json?: unknown): Promise<{ id: string; prefix: string }> => {
    const response = await service.request(path, { method, ...(json === undefined ? {} : { json }) })
    expect(response.ok, `${method} ${path}`).toBe(true)
    const text = await response.text()
    const body: { id: string; prefix: string; key?: string; url?: string } = text === '' ? {} : JSON.parse(text)
    // The address of a calendar feed ends with its secret.
    if (body.url !== undefined) secrets.push(body.url.slice(-32))
    if (body.key !== undefined) secrets.push(body.key)
    return body
  }
  const send = async (method: string, path: string, body: string) => {
    const response = await service.request(path, { method, body, headers: { 'content-type': 'application/json' } })
    expect(response.ok, `${method} ${path}`).toBe(true)
    const { digest }: { digest: string } = JSON.parse(await response.text())
    return digest
  }
  return { service, folder, stores, secrets, run, ask, send }
}

type Setup = Awaited<ReturnType<typeof setUp>>

/** The steps of a key's life, by route and by command. */
function keySteps({ run, ask }: Setup): readonly Step[] {
  let asked = { id: '', prefix: '' }
  let typed = ''
  const limits = { plants: 5 }
  return [
    {
      action: 'key.created',
      way: 'route',
      async run() {
        asked = await ask('POST', '/keys', { scopes: ['chat'], name: 'phone', limits })
        const after = {
          account: 'owner',
          name: 'phone',
          scopes: ['chat'],
          expires: null,
          revoked: null,
          limits,
          models: null,
        }
        return { target: asked.prefix, before: null, after }
      },
    },
    {
      action: 'key.rotated',
      way: 'route',
      async run() {
        const old = asked.prefix
        asked = await ask('POST', `/keys/${asked.id}/rotate`, { overlap_seconds: 60 })
        const after = { revoked: expect.any(Number), successor: asked.prefix }
        return { target: old, before: { revoked: null }, after }
      },
    },
    {
      action: 'key.revoked',
      way: 'route',
      async run() {
        await ask('DELETE', `/keys/${asked.id}`)
        return { target: asked.prefix, before: { revoked: null }, after: { revoked: expect.any(Number) } }
      },
    },
    {
      action: 'key.created',
      way: 'command',
      async run() {
        typed = (await run('keys create --account ann --scopes chat,plants:read --limit plants=5')).slice(0, 11)
        return { target: typed, before: null, after: { account: 'ann', scopes: ['chat', 'plants:read'], limits } }
      },
    },
    {
      action: 'key.limited',
      way: 'command',
      async run() {
        await run(`keys limit ${typed} --limit plants=none --limit chat_at_once=2`)
        return { target: typed, before: { limits }, after: { limits: { chat_at_once: 2 } } }
      },
    },
    {
      action: 'key.limited',
      way: 'command',
      async run() {
        await run(`keys models ${typed} understudy`)
        return { target: typed, before: { models: null }, after: { models: ['understudy'] } }
      },
    },
    {
      action: 'key.rotated',
      way: 'command',
      async run() {
        const old = typed
        typed = (await run(`keys rotate ${typed} --overlap 0`)).slice(0, 11)
        return { target: old, before: { revoked: null }, after: { revoked: expect.any(Number), successor: typed } }
      },
    },
    {
      action: 'key.revoked',
      way: 'command',
      async run() {
        await run(`keys revoke ${typed}`)
        return { target: typed, before: { revoked: null }, after: { revoked: expect.any(Number) } }
      },
    },
  ]
}

function command({ run }: Setup, action: AuditAction, line: string, said: Readonly<Record<string, unknown>>): Step {
  return {
    action,
    way: 'command',
    async run() {
      await run(line)
      return said
    },
  }
}

/** Actions on accounts and shares, which only commands can do. */
function accountSteps(setup: Setup): { readonly first: readonly Step[]; readonly last: readonly Step[] } {
  const file = join(setup.folder, 'plants.jsonl')
  const shared = { tags: [null] }
  const tagged = { tags: ['moss'] }
  return {
    first: [
      command(setup, 'account.created', 'accounts create ann --limit plants=9', {
        target: 'ann',
        before: null,
        after: { limits: { plants: 9 }, suspended: null },
      }),
      command(setup, 'account.limited', 'accounts limit ann --limit plants=8', {
        target: 'ann',
        before: { limits: { plants: 9 } },
        after: { limits: { plants: 8 } },
      }),
      command(setup, 'account.limited', 'accounts models ann understudy,b/*', {
        target: 'ann',
        before: { models: null },
        after: { models: ['understudy', 'b/*'] },
      }),
      command(setup, 'account.changed', 'accounts set ann --time-zone europe/berlin', {
        target: 'ann',
        before: { time_zone: null },
        after: { time_zone: 'Europe/Berlin' },
      }),
      command(setup, 'account.suspended', 'accounts suspend ann', {
        target: 'ann',
        before: { suspended: null },
        after: { suspended: expect.any(Number) },
      }),
      command(setup, 'account.resumed', 'accounts resume ann', { target: 'ann', after: { suspended: null } }),
      {
        action: 'account.exported',
        way: 'command',
        async run() {
          writeFileSync(file, await setup.run('accounts export owner'))
          return { target: 'owner', before: null, after: null }
        },
      },
      command(setup, 'account.imported', `accounts import ann ${file}`, {
        target: 'ann',
        before: null,
        after: { plants: 1 },
      }),
      command(setup, 'account.import_undone', `accounts import ann ${file} --undo`, {
        target: 'ann',
        before: { plants: 1 },
        after: null,
      }),
      ...(['POST', 'DELETE'] as const).map(
        (method): Step => ({
          action: method === 'POST' ? 'feed.created' : 'feed.ended',
          way: 'route',
          async run() {
            await setup.ask(method, '/care/feed')
            return { target: null }
          },
        }),
      ),
      command(setup, 'share.granted', 'plants share --from ann --to owner', {
        target: 'ann>owner',
        before: null,
        after: shared,
      }),
      command(setup, 'share.granted', 'plants share --from ann --to owner --tag moss', {
        target: 'ann>owner#moss',
        after: tagged,
      }),
      command(setup, 'share.revoked', 'plants unshare --from ann --to owner --tag moss', {
        target: 'ann>owner#moss',
        before: tagged,
        after: null,
      }),
      command(setup, 'share.revoked', 'plants unshare --from ann --to owner', { target: 'ann>owner', before: shared }),
    ],
    last: [
      // A deletion first suspends the account, which has its own record, unless the account is suspended already.
      command(setup, 'account.suspended', 'accounts suspend ann', { target: 'ann', before: { suspended: null } }),
      command(setup, 'account.deleted', 'accounts delete ann', {
        target: 'ann',
        before: { limits: { plants: 8 }, suspended: expect.any(Number) },
        after: null,
      }),
    ],
  }
}

/** The steps of a character's life, by route and by command. */
function characterSteps({ folder, run, ask, send }: Setup): readonly Step[] {
  const digest = expect.stringMatching(/^sha256:[0-9a-f]{64}$/)
  const file = join(folder, 'card.json')
  return [
    {
      action: 'character.created',
      way: 'route',
      run: async () => ({
        target: 'Moss',
        before: null,
        after: { digest: await send('POST', '/characters', card('Moss', 'one')) },
      }),
    },
    {
      action: 'character.replaced',
      way: 'route',
      run: async () => ({
        target: 'Moss',
        before: { digest },
        after: { digest: await send('PUT', '/characters/Moss', card('Moss', 'two')) },
      }),
    },
    {
      action: 'character.created',
      way: 'route',
      run: async () => ({
        target: 'n\\0l',
        before: null,
        after: { digest: await send('PUT', '/characters/n%5C0l', card('Moss', 'two')) },
      }),
    },
    {
      action: 'character.deleted',
      way: 'route',
      async run() {
        await ask('DELETE', '/characters/Moss')
        return { target: 'Moss', before: { digest }, after: null }
      },
    },
    {
      action: 'character.created',
      way: 'command',
      async run() {
        writeFileSync(file, card('Fir', 'one'))
        await run(`characters import ${file} --account ann`)
        return { target: 'Fir', before: null, after: { digest } }
      },
    },
    {
      action: 'character.replaced',
      way: 'command',
      async run() {
        writeFileSync(file, card('Fir', 'two'))
        await run(`characters import ${file} --account ann --replace`)
        return { target: 'Fir', before: { digest }, after: { digest } }
      },
    },
  ]
}

it.each(engines)('every action, by route and by command, leaves exactly one record: %s', async (_, open) => {
  const setup = await setUp(await open())
  const { service, stores, secrets } = setup
  const first = await allRecords(stores)
  expect(first).toMatchObject([
    { ...byService, action: 'account.created', target: 'owner', before: null, after: { limits: {} } },
    {
      ...byService,
      action: 'key.created',
      target: service.key.slice(0, 11),
      before: null,
      after: { account: 'owner' },
    },
  ])
  await service.request('/plants', { json: { name: 'Moss', tag: 'moss' } })
  const accounts = accountSteps(setup)
  const steps = [...accounts.first, ...keySteps(setup), ...characterSteps(setup), ...accounts.last]
  const seen: AuditRecord[] = [...first]
  for (const { action, way, run } of steps) {
    const before = Math.floor(Date.now() / 1000)
    const said = await run()
    const records = await allRecords(stores)
    expect(records.slice(0, -1), `${action} by ${way}`).toEqual(seen)
    const by = way === 'route' ? byKey(service.key, 'owner') : byCommand
    const record = records.at(-1)
    expect(record).toMatchObject({
      object: 'audit_record',
      id: expect.stringMatching(/^audit_[0-9a-f]{32}$/),
      ...by,
      action,
      ...said,
    })
    expect(record?.at).toBeGreaterThanOrEqual(before)
    if (record) seen.push(record)
  }
  const done = new Set<string>(steps.map(({ action }) => action))
  expect(auditActions.filter((action) => !done.has(action))).toEqual(elsewhere)
  const text = JSON.stringify(seen)
  expect(secrets.length).toBeGreaterThan(4)
  for (const secret of secrets) {
    for (const canary of [secret.slice(7), digestKey(secret)]) expect(text).not.toContain(canary)
  }
})

it('a refused action leaves no record, and neither does an action that changes nothing', async () => {
  const { service, folder, stores, run } = await setUp({})
  await run('accounts create ann')
  await run('plants share --from ann --to owner')
  const before = await allRecords(stores)
  await run('plants share --from ann --to owner')
  const lines = [
    'accounts create ann',
    'accounts suspend owner',
    'accounts resume ann',
    'accounts limit nobody --limit plants=1',
    'accounts delete owner',
    'accounts export nobody',
    'keys create --account nobody --scopes chat',
    `keys revoke ${service.key}`,
    'keys rotate cv_none --overlap 0',
    'keys limit cv_none --limit plants=1',
    'plants unshare --from owner --to ann',
    'characters import nothing.json --account ann',
  ]
  for (const line of lines) {
    expect(await conservatory(line.split(' '), { DATA_DIR: folder }), line).toMatchObject({ code: 1 })
  }
  const card = { method: 'PUT', body: '{}', headers: { 'content-type': 'application/json' } }
  const replies = await Promise.all([
    service.request('/keys', { json: { scopes: ['all'] } }),
    service.request('/keys/key_none', { method: 'DELETE' }),
    service.request('/keys/key_none/rotate', { json: { overlap_seconds: 0 } }),
    service.request('/characters/Moss', card),
    service.request('/characters/Moss', { method: 'DELETE' }),
    service.request('/characters/Fern', { method: 'DELETE' }),
  ])
  expect(replies.map(({ status }) => status)).toEqual([400, 404, 404, 400, 404, 403])
  expect(await allRecords(stores)).toEqual(before)
})
