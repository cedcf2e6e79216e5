import { describe, expect, it, onTestFinished } from 'vitest'
import { conservatory } from '../support/command.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import { onceKnown, storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

let made = 0
/** A card of exactly so many bytes. Each call makes another card. */
function cardOf(bytes: number): string {
  const textOf = (filling: string) =>
    JSON.stringify({
      spec: 'chara_card_v2',
      spec_version: '2.0',
      data: { name: 'Fern', description: `${made} ${filling}` },
    })
  made++
  return textOf('x'.repeat(bytes - textOf('').length))
}

function senderOf(service: TestService, key: string) {
  return (method: string, path: string, body?: string) =>
    service.request(path, {
      method,
      headers: { authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { body }),
    })
}

describe('limits of uploads', () => {
  it('refuse with the name of the limit and without Retry-After, until something is deleted or the operator raises the limit', async () => {
    const service = await serviceForThisTest({ LIMITS: 'characters=2,character_bytes=1000' })
    const send = senderOf(service, await service.makeKey('ann', ['chat', 'characters:write']))
    expect(cardOf(400)).toHaveLength(400)
    expect((await send('PUT', '/characters/a', cardOf(400))).status).toBe(201)
    expect((await send('PUT', '/characters/a', cardOf(400))).status).toBe(200)
    for (const path of ['/characters/a', '/characters/b']) {
      const refused = await send('PUT', path, cardOf(201))
      expect(refused.headers.get('retry-after')).toBeNull()
      expect((await expectError(refused, 'chat', 429)).code).toBe('character_bytes_limit')
    }
    expect((await send('POST', '/characters', cardOf(200))).status).toBe(201)
    expect((await send('DELETE', '/characters/a')).status).toBe(204)
    expect((await send('PUT', '/characters/c', cardOf(400))).status).toBe(201)
    const third = await send('PUT', '/characters/d', cardOf(300))
    expect(third.headers.get('retry-after')).toBeNull()
    const { code, message } = await expectError(third, 'chat', 429)
    expect([code, message]).toStrictEqual(['characters_limit', expect.stringContaining('The limit "characters" of 2')])
    const limits = ['--limit', 'characters=none', '--limit', 'character_bytes=900']
    await conservatory(['accounts', 'limit', 'ann', ...limits], { DATA_DIR: service.dataDirectory })
    await onceKnown(async () => expect((await send('PUT', '/characters/d', cardOf(300))).status).toBe(201))
    expect((await expectError(await send('PUT', '/characters/e', cardOf(200)), 'chat', 429)).code).toBe(
      'character_bytes_limit',
    )
    // No refused upload is stored: "Fern", "c" and "d" are left.
    const { characters, access } = await storesForThisTest(service.dataDirectory)
    const account = (await access.listAccounts()).find(({ name }) => name === 'ann')?.id ?? 0
    expect(await characters.list(account, '', 9)).toHaveLength(3)
  })

  it('of a key hold in addition to its account’s, and there are default limits', async () => {
    const service = await serviceForThisTest()
    await service.makeKey('ann', ['chat'])
    const { access } = await storesForThisTest(service.dataDirectory)
    const scopes = ['chat', 'characters:write'] as const
    const { secret } = await access.createKey({ account: 'ann', scopes, limits: { characters: 1 } })
    const narrow = senderOf(service, secret)
    const wide = senderOf(service, (await access.createKey({ account: 'ann', scopes })).secret)
    expect((await wide('PUT', '/characters/a', cardOf(200))).status).toBe(201)
    expect((await expectError(await narrow('PUT', '/characters/b', cardOf(200)), 'chat', 429)).code).toBe(
      'characters_limit',
    )
    expect((await narrow('PUT', '/characters/a', cardOf(200))).status).toBe(200)
    const sql = await sqlForThisTest(service.dataDirectory)
    await sql.run('UPDATE character_use SET bytes = ? WHERE account = 2', 536_870_912)
    await expectError(await wide('PUT', '/characters/b', cardOf(200)), 'chat', 429)
  })
})

it('a version that is played, composed into a prompt or exported is recorded as used', async () => {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const service = await startTestService({ DATA_DIR: folder.path })
  onTestFinished(() => service.close())
  const key = await service.makeKey('ann', ['chat', 'characters:write'])
  const send = senderOf(service, key)
  const digests: string[] = []
  for (let version = 0; version < 4; version++) {
    const text = await (await send('PUT', '/characters/Fern', cardOf(300))).text()
    digests.push(/sha256:[0-9a-f]{64}/.exec(text)?.[0] ?? '')
  }
  const [first = '', , third = '', fourth = ''] = digests
  const chat = (path: string, character: string) =>
    service.request(path, {
      json: { model: 'understudy', character, messages: [{ role: 'user', content: 'Hello' }] },
      headers: { authorization: `Bearer ${key}` },
    })
  expect((await chat('/chat/completions', `Fern@${first}`)).status).toBe(200)
  expect((await chat('/chat/prompt', 'fern')).status).toBe(200)
  expect((await send('GET', `/characters/Fern@${third}?format=json`)).status).toBe(200)
  // The service writes pending records at the latest when it stops.
  await service.close()
  const sql = await sqlForThisTest(folder.path)
  const used = await sql.run<{ digest: string }>('SELECT digest FROM character_use WHERE used IS NOT NULL')
  const expected = [first, third, fourth].map((digest) => digest.slice('sha256:'.length))
  expect(used.map(({ digest }) => digest).toSorted()).toStrictEqual(expected.toSorted())
})
