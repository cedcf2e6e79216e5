import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parseStream, readChatError, readCompletion, textOfStream } from '../../support/chat.ts'
import { compileCache } from '../../support/command.ts'
import { until } from '../../support/eventually.ts'
import { type SpawnedService, spawnService } from '../../support/process.ts'
import { serviceForThisTest, startTestService, temporaryFolder } from '../../support/service.ts'
import { chunkText, completion, json, upstreamForThisTest } from '../../support/upstream.ts'

const canary = 'CANARY-0123'

describe('the names of models.json', () => {
  test('lead to their models, and are listed unless they are prefixes', async () => {
    const upstream = await upstreamForThisTest(json(completion('Hello.')))
    const adapter = { adapter: 'openai', baseUrl: upstream.url }
    const service = await serviceForThisTest(
      {},
      {
        'my model': { ...adapter, model: 'vendor/model-2026' },
        bare: adapter,
        'local/*': adapter,
        'local/big/*': adapter,
        'fixed/*': { ...adapter, model: 'always' },
        list: { fallback: ['my model'] },
      },
    )
    const sent: readonly (readonly [id: string, upstreamId: string, name: string])[] = [
      ['my model', 'vendor/model-2026', 'my%20model'],
      ['bare', 'bare', 'bare'],
      ['local/a/b:c', 'a/b:c', 'local%2F*'],
      ['local/big/x', 'x', 'local%2Fbig%2F*'],
      ['fixed/any', 'always', 'fixed%2F*'],
      ['list', 'vendor/model-2026', 'my%20model'],
      ['default', 'vendor/model-2026', 'my%20model'],
    ]
    for (const [id, upstreamId, name] of sent) {
      const response = await service.request('/chat/completions', { json: { model: id, messages } })
      expect([id, response.status, response.headers.get('x-model')]).toEqual([id, 200, name])
      expect([id, upstream.calls.at(-1)?.body['model']]).toEqual([id, upstreamId])
    }
    for (const id of ['local', 'local/', 'Bare', 'other/x', 'understudy', 'local/*x'.slice(0, 6)]) {
      const response = await service.request('/chat/completions', { json: { model: id, messages } })
      expect([id, response.status]).toEqual([id, 404])
      const error = await readChatError(response)
      expect(error).toMatchObject({ code: 'model_not_found', param: 'model' })
      expect(error.message).toMatch(/my model, bare, local\/\*, local\/big\/\*, fixed\/\*, list\.$/)
    }
    const listed: { data: readonly { id: string; owned_by: string }[] } = JSON.parse(
      await (await service.request('/models')).text(),
    )
    const models = listed.data.filter(({ id }) => !id.startsWith('character/'))
    expect(models.map(({ id, owned_by }) => [id, owned_by])).toEqual([
      ['my model', 'openai'],
      ['bare', 'openai'],
      ['list', 'conservatory'],
    ])
  })

  test('are the only way to an understudy that misbehaves', async () => {
    const service = await startTestService(
      {},
      { understudy: { adapter: 'understudy' }, odd: { adapter: 'understudy/500' } },
    )
    onTestFinished(() => service.close())
    const statuses = ['understudy', 'understudy/500', 'understudy/empty', 'odd'].map(async (model) => {
      const response = await service.request('/chat/completions', { json: { model, messages } })
      return [model, response.status]
    })
    expect(await Promise.all(statuses)).toEqual([
      ['understudy', 200],
      ['understudy/500', 404],
      ['understudy/empty', 404],
      ['odd', 500],
    ])
  })
})

const messages = [{ role: 'user', content: 'Hello' }]

function ask(service: SpawnedService, body: Readonly<Record<string, unknown>>): Promise<Response> {
  return fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: service.key, 'content-type': 'application/json' },
    body: JSON.stringify({ messages, ...body }),
  })
}

test('SIGHUP breaks no stream, keeps the old models if the new file is invalid, and otherwise uses the new models', async () => {
  const gate = Promise.withResolvers<void>()
  const upstream = await upstreamForThisTest(async (response, call) => {
    if (call.body['stream'] !== true) return json(completion('Whole.'))(response, call)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${chunkText({ content: 'One ' })}\n\n`)
    await gate.promise
    response.end(`data: ${chunkText({ content: 'two' }, 'stop')}\n\ndata: [DONE]\n\n`)
  })
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const write = (text: string) => writeFileSync(join(folder.path, 'models.json'), text)
  const adapter = { adapter: 'openai', baseUrl: upstream.url }
  write(JSON.stringify({ models: { old: adapter } }))
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder.path, BOOTSTRAP_KEY: 'a-key-of-the-caller-0123456789' },
  })
  const running = await ask(service, { model: 'old', stream: true })
  expect(running.status).toBe(200)

  write(`{"models": {"old": ${JSON.stringify({ ...adapter, apiKey: canary, retrys: canary })}}}`)
  service.process.kill('SIGHUP')
  await until(() => service.stdout().includes('the models cannot be read again'))
  expect(service.stdout()).toContain('models.old.retrys is not a setting of this adapter')
  expect(service.stdout()).not.toContain(canary)
  expect((await ask(service, { model: 'old' })).status).toBe(200)

  write(JSON.stringify({ models: { new: { ...adapter, model: 'm2' } } }))
  service.process.kill('SIGHUP')
  await until(async () => (await ask(service, { model: 'new' })).status === 200)
  expect(upstream.calls.at(-1)?.body['model']).toBe('m2')
  expect((await ask(service, { model: 'old' })).status).toBe(404)

  await until(() => service.stdout().includes('the models have been read again'))

  gate.resolve()
  const streamed = parseStream(await running.text())
  expect([textOfStream(streamed), streamed.isDone, streamed.errors]).toEqual(['One two', true, []])
})

test('after SIGHUP, requests in flight can retry, and go on to the next model', async () => {
  const failed = json({ error: {} }, 500, { 'retry-after': '0.3' })
  const upstream = await upstreamForThisTest(failed, failed, json(completion('At last.')))
  const spare = await upstreamForThisTest(json(completion('Not needed.')))
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const write = (models: unknown) => writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
  const adapter = { adapter: 'openai', baseUrl: upstream.url, retries: 0 }
  write({ list: { fallback: ['a', 'b'] }, a: { ...adapter, retries: 1 }, b: adapter })
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder.path, BOOTSTRAP_KEY: 'a-key-of-the-caller-0123456789' },
  })
  const running = ask(service, { model: 'list' })
  await until(() => upstream.calls.length === 1)
  write({ other: { ...adapter, baseUrl: spare.url } })
  service.process.kill('SIGHUP')
  await until(() => service.stdout().includes('the models have been read again'))
  const response = await running
  expect([response.status, response.headers.get('x-model')]).toEqual([200, 'b'])
  expect(upstream.calls).toHaveLength(3)
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(0)
})

test('without a models.json, the upstream of OPENAI_BASE_URL gets every id except those of the understudies', async () => {
  const upstream = await upstreamForThisTest(json(completion('Hello.')))
  const service = await serviceForThisTest({ OPENAI_BASE_URL: upstream.url, OPENAI_API_KEY: 'the-key' })
  const response = await service.request('/chat/completions', { json: { model: 'org/model:free', messages } })
  expect([response.status, response.headers.get('x-model')]).toEqual([200, encodeURIComponent('org/model:free')])
  expect((await readCompletion(response)).choices[0]?.message.content).toBe('Hello.')
  expect(upstream.calls[0]?.headers.authorization).toBe('Bearer the-key')
})
