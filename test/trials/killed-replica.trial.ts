import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { compileCache } from '../support/command.ts'
import { until } from '../support/eventually.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'
import { spawnService } from '../support/process.ts'
import { onceAsked, serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { pieces, upstreamForThisTest } from '../support/upstream.ts'

const preset = 'a-key-for-tests-of-limits'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

it('the in-flight chats of a killed replica stop counting within a minute', { timeout: 60_000 }, async () => {
  const upstream = await upstreamForThisTest(pieces([], 'hang'))
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models: onceAsked(upstream.url) }))
  const environment = {
    DATABASE_URL: await server.createDatabase(),
    DATA_DIR: folder.path,
    BOOTSTRAP_KEY: preset,
    LOG_LEVEL: 'silent',
    LIMITS: 'chat_at_once=2',
  }
  const other = await serviceForThisTest(environment)
  const dying = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, ...environment },
  })
  const ask = async (url: string, model: string) => {
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${preset}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Good morning.' }] }),
    })
    await response.arrayBuffer()
    return response.status
  }
  const hanging = [ask(dying.url, 'any'), ask(dying.url, 'any')].map((answer) => answer.catch(() => undefined))
  await upstream.called(2)
  expect(await ask(other.url, 'understudy')).toBe(429)
  dying.process.kill('SIGKILL')
  expect(await Promise.all(hanging)).toStrictEqual([undefined, undefined])
  expect(await ask(other.url, 'understudy')).toBe(429)
  await until(async () => (await ask(other.url, 'understudy')) === 200)
})
