import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Stores } from '../../src/stores/stores.ts'
import { parseStream, readChatError } from '../support/chat.ts'
import { conservatory } from '../support/command.ts'
import { connectTo } from '../support/connection.ts'
import { expectError } from '../support/http.ts'
import { onceAsked, serviceForThisTest, type TestService } from '../support/service.ts'
import { isOverPostgres, storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'
import { pieces, type ScriptedUpstream, streamOf, upstreamForThisTest } from '../support/upstream.ts'

/** A service, and a second connection to its stores, as a command has it. */
interface Beside extends Pick<Stores, 'access' | 'plants' | 'deleteAccount'> {
  readonly service: TestService
  readonly upstream: ScriptedUpstream
}

async function serviceWithStores(): Promise<Beside> {
  const upstream = await upstreamForThisTest(pieces(streamOf('One two three').slice(0, 3), 'hang'))
  const service = await serviceForThisTest({}, onceAsked(upstream.url))
  const { access, plants, deleteAccount } = await storesForThisTest(service.dataDirectory)
  return { service, upstream, access, plants, deleteAccount }
}

function chat(service: TestService, key: string, stream: boolean, model = 'of-ann'): Promise<Response> {
  const json = { model, messages: [{ role: 'user', content: 'Hello' }], stream }
  return service.request('/chat/completions', { json, headers: { authorization: key } })
}

async function called({ calls }: ScriptedUpstream, count: number): Promise<void> {
  while (calls.length < count) await wait(5)
}

/** The ways to end a key, each with the error that a running stream of the key gets. */
const endings: readonly (readonly [
  how: string,
  end: (beside: Beside, key: string) => Promise<unknown>,
  type: string,
  code: string,
])[] = [
  [
    'the command line revokes it',
    async ({ service }, key) => {
      const ended = await conservatory(['keys', 'revoke', key.slice(0, 11)], { DATA_DIR: service.dataDirectory })
      expect(ended.code).toBe(0)
    },
    'authentication_error',
    'key_revoked',
  ],
  [
    'a request revokes it',
    async ({ service, access }, key) => {
      const panel = (await access.createKey({ account: 'ann', scopes: ['admin'] })).secret
      const headers = { authorization: panel }
      const text = await (await service.request('/keys', { headers })).text()
      const list: { data: { id: string; prefix: string }[] } = JSON.parse(text)
      const id = list.data.find(({ prefix }) => prefix === key.slice(0, 11))?.id
      expect((await service.request(`/keys/${id}`, { method: 'DELETE', headers })).status).toBe(204)
    },
    'authentication_error',
    'key_revoked',
  ],
  [
    'it is rotated without an overlap',
    ({ access }, key) => access.rotateKey(key, 0),
    'authentication_error',
    'key_revoked',
  ],
  ['its account is suspended', ({ access }) => access.suspendAccount('ann'), 'permission_error', 'account_suspended'],
  ['its account is deleted', ({ deleteAccount }) => deleteAccount('ann'), 'authentication_error', 'key_revoked'],
]

describe('a key that ends', () => {
  it.for(endings)('ends its running requests: %s', async ([, end, type, code]) => {
    const beside = await serviceWithStores()
    const { service, upstream } = beside
    const key = await service.makeKey('ann', ['chat'])
    const other = await service.makeKey('bob', ['chat'])
    const [streamed, kept] = await Promise.all([chat(service, key, true), chat(service, other, true, 'of-bob')])
    const whole = chat(service, key, false)
    await called(upstream, 3)
    await end(beside, key)

    const { chunks, errors, isDone } = parseStream(await streamed.text())
    expect({ chunks: chunks.length, isDone }).toEqual({ chunks: 3, isDone: false })
    expect(errors).toEqual([{ error: { message: expect.stringMatching(/\.$/), type, param: null, code } }])
    const refused = await whole
    expect(refused.status).toBe(code === 'account_suspended' ? 403 : 401)
    expect(await readChatError(refused)).toMatchObject({ type, code })
    const open = wait(0).then(() => 'open')
    const states = upstream.calls.map(({ body, aborted }) =>
      body['model'] === 'of-ann' ? aborted.then(() => 'aborted') : Promise.race([aborted, open]),
    )
    expect((await Promise.all(states)).toSorted()).toEqual(['aborted', 'aborted', 'open'])
    await kept.body?.cancel()

    // New requests are refused in the error shape of their interface.
    const status = code === 'account_suspended' ? 403 : 401
    await expectError(await chat(service, key, false), 'chat', status)
    await expectError(
      await service.request('/plants', { headers: { authorization: `Bearer ${key}` } }),
      'plants',
      status,
    )
  })

  it('ends its stream when it expires', async () => {
    const { service } = await serviceWithStores()
    const key = await service.makeKey('ann', ['chat'], Math.floor(Date.now() / 1000) + 20)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], shouldAdvanceTime: true })
    onTestFinished(() => void vi.useRealTimers())
    const stream = await chat(service, key, true)
    vi.advanceTimersByTime(20_000)
    const { errors, isDone } = parseStream(await stream.text())
    expect(isDone).toBe(false)
    expect(errors.map(({ error }) => error.code)).toEqual(['key_expired'])
  })

  it('has its list of plants cut off, and its write refused if the body was still arriving', async () => {
    const { service, access } = await serviceWithStores()
    const key = await service.makeKey('ann', ['plants:read', 'plants:write', 'chat'])
    const sql = await sqlForThisTest(service.dataDirectory)
    // 20 MB, far more than the sockets' buffers hold.
    await sql.run(`
      INSERT INTO plants (account, id, name)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 100000)
      SELECT accounts.id, ids.id, '${'x'.repeat(200)}' FROM ids, accounts WHERE accounts.name = 'ann'`)
    const head = `Host: x\r\nAuthorization: Bearer ${key}\r\n`
    const list = await connectTo(service.url, `GET /plants HTTP/1.1\r\n${head}\r\n`)
    await once(list.socket, 'data')
    list.socket.pause()
    const body = '{"name": "late"}'
    const type = `Connection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
    const late = await connectTo(service.url, `POST /plants HTTP/1.1\r\n${head}${type}\r\n\r\n${body.slice(0, 5)}`)
    await wait(300)
    const stream = await chat(service, key, true)
    await access.revokeKey(key)
    // Over SQLite the service sees the revocation at once. Over PostgreSQL the service sees the revocation later, and then ends the stream.
    if (isOverPostgres) await stream.text()
    late.socket.write(body.slice(5))
    await late.closed
    expect(late.text()).toMatch(/^HTTP\/1\.1 401 [\s\S]*\{"error":401,"message":"The key has been revoked\./)
    expect(await sql.run("SELECT * FROM plants WHERE name = 'late'")).toEqual([])
    await wait(300)
    list.socket.resume()
    await list.closed
    expect(list.text()).toMatch(/^HTTP\/1\.1 200 /)
    expect(list.text()).not.toMatch(/\]\r\n0\r\n\r\n$|\]\r\n\r\n0/)
    expect(list.text().length).toBeLessThan(20_000_000)
  })

  it('whose account is deleted does not make another account’s write in the same commit fail', async () => {
    const { access, plants, deleteAccount } = await serviceWithStores()
    const [gone, kept] = [await access.createAccount('ann'), await access.createAccount('bob')]
    await deleteAccount('ann')
    const [refused, done] = await Promise.allSettled([
      plants.create(gone.id, { name: 'late' }),
      plants.create(kept.id, { name: 'fine' }),
    ])
    expect(refused).toMatchObject({ status: 'rejected', reason: { status: 403, code: 'account_deleted' } })
    expect(done).toMatchObject({ status: 'fulfilled', value: { plant: { name: 'fine' } } })
  })
})
