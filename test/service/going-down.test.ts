import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { readChatError, readStream, textOfStream } from '../support/chat.ts'
import { compileCache } from '../support/command.ts'
import { connectTo } from '../support/connection.ts'
import { eventually } from '../support/eventually.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'
import { onceAsked, temporaryFolder } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'
import { chunkText, completion, json, pieces, type Script, upstreamForThisTest } from '../support/upstream.ts'

const key = 'a-key-of-one-who-stays'
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
const begun = [{ role: 'assistant', content: '' }, { content: 'One two' }].map(
  (delta) => `data: ${chunkText(delta)}\n\n`,
)

async function start(grace: number, models: object = {}): Promise<SpawnedService> {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const all = { understudy: { adapter: 'understudy' }, ...models }
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models: all }))
  return spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder.path, BOOTSTRAP_KEY: key, SHUTDOWN_GRACE: String(grace) },
  })
}

const ask = ({ url }: SpawnedService, model: string, stream: boolean): Promise<Response> =>
  fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], stream }),
  })

const plant = ({ url }: SpawnedService, name: string): Promise<Response> =>
  fetch(`${url}/plants`, { method: 'POST', headers, body: JSON.stringify({ name }) })

/** Fills the plants of the first account with more than the sockets' buffers hold: 20 MB. */
async function fill({ dataDirectory }: SpawnedService): Promise<void> {
  const sql = await sqlForThisTest(dataDirectory)
  await sql.run(`
    INSERT INTO plants (account, id, name)
    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 10000)
    SELECT accounts.id, ids.id, '${'🌵'.repeat(500)}' FROM ids, accounts`)
}

async function namesIn({ dataDirectory }: SpawnedService): Promise<readonly string[]> {
  const sql = await sqlForThisTest(dataDirectory)
  return (await sql.run<{ readonly name: string }>('SELECT name FROM plants')).map(({ name }) => name)
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  it(`${signal} with open streams: each ends with an error event, waiting requests get a 503, exit 0`, async () => {
    const upstream = await upstreamForThisTest()
    const fallback = { best: { fallback: ['first', 'second'] } }
    const [first, second] = [{ adapter: 'openai', baseUrl: upstream.url }, { adapter: 'understudy' }]
    const service = await start(2, { ...onceAsked(upstream.url), ...fallback, first, second })
    await fill(service)
    // The grace period has to end these requests: a stream that has begun, a stream and a whole reply that have not begun, and
    // a request whose model has a fallback.
    upstream.answer(pieces(begun, 'hang'), () => {})
    const open = await ask(service, 'm', true)
    const waiting = [ask(service, 'm', true), ask(service, 'm', false), ask(service, 'best', false)]
    await eventually(() => expect(upstream.calls).toHaveLength(4))
    // It also has to end these connections: one with a list that is not read, an idle one, and one that sends nothing.
    const list = await connectTo(service.url, `GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
    list.socket.pause()
    const idle = await connectTo(service.url, 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n')
    await eventually(() => expect(idle.text()).toContain('"ok"'))
    const silent = await connectTo(service.url)

    service.process.kill(signal)
    await idle.closed
    await eventually(() => expect(connectTo(service.url)).rejects.toThrow('ECONNREFUSED'))
    const streamed = await readStream(open)
    expect(textOfStream(streamed)).toBe('One two')
    const error = { type: 'server_error', param: null, code: 'service_stopping', message: expect.any(String) }
    expect(streamed.errors).toEqual([{ error }])
    expect(streamed.isDone).toBe(false)
    for (const answer of await Promise.all(waiting)) {
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
      expect(answer.headers.get('connection')).toBe('close')
      expect(await readChatError(answer)).toEqual(error)
    }
    await Promise.all(upstream.calls.map(({ aborted }) => aborted))
    expect(upstream.calls).toHaveLength(4)
    // The grace period has ended the requests, which would never have ended by themselves.
    expect(await service.exited).toBe(0)
    list.socket.resume()
    await Promise.all([list.closed, silent.closed])
    expect(list.text()).not.toMatch(/0\r\n\r\n$/)
    expect(service.stdout()).toContain('"state":"service_stopping"')
  })
}

it('a service that stops lets replies end by themselves, commits waiting writes, and exits after the last reply', async () => {
  const slowly: Script = async (response, call) => {
    await new Promise((resolve) => setTimeout(resolve, 500))
    const whole = [...begun, `data: ${chunkText({}, 'stop')}\n\n`, 'data: [DONE]\n\n']
    const script = call.body['stream'] === true ? pieces(whole) : json(completion('Done.'))
    await script(response, call)
  }
  const upstream = await upstreamForThisTest(slowly)
  // The grace period does not end during the test.
  const service = await start(600, onceAsked(upstream.url))
  expect((await plant(service, 'First')).status).toBe(200)
  const replies = [ask(service, 'm', true), ask(service, 'm', false)]
  await eventually(() => expect(upstream.calls).toHaveLength(2))
  const writes = Array.from({ length: 50 }, (_, count) => plant(service, `Late ${count}`).catch(() => undefined))
  await writes[0]
  service.process.kill('SIGTERM')
  const [streamed, whole] = await Promise.all(replies)
  expect(streamed && (await readStream(streamed)).isDone).toBe(true)
  expect(whole?.status).toBe(200)
  const written = (await Promise.all(writes)).filter((answer) => answer?.status === 200)
  // The service does not wait for the idle connections that clients keep open.
  expect(await service.exited).toBe(0)
  const names = await namesIn(service)
  expect(names.length).toBeGreaterThanOrEqual(written.length + 1)
  expect(new Set(names).size).toBe(names.length)
})

it('the same signal twice in a row, as with Ctrl-C under npm, counts once: open streams get an error event, exit 0', async () => {
  const upstream = await upstreamForThisTest(pieces(begun, 'hang'))
  const service = await start(2, onceAsked(upstream.url))
  const open = await ask(service, 'm', true)
  service.process.kill('SIGINT')
  service.process.kill('SIGINT')
  expect(await open.text()).toContain('data: {"error":')
  expect(await service.exited).toBe(0)
})

it('a second signal ends the service at once, with exit code 1, and acknowledged plants are stored', async () => {
  const upstream = await upstreamForThisTest(pieces(begun, 'hang'))
  const service = await start(60, onceAsked(upstream.url))
  expect((await plant(service, 'Moss')).status).toBe(200)
  const open = await ask(service, 'm', true)
  service.process.kill('SIGTERM')
  await eventually(() => expect(connectTo(service.url)).rejects.toThrow('ECONNREFUSED'))
  expect(service.process.exitCode).toBe(null)
  service.process.kill('SIGINT')
  expect(await service.exited).toBe(1)
  await open.text().catch(() => '')
  await upstream.calls[0]?.aborted
  expect(await namesIn(service)).toEqual(['Moss'])
})
