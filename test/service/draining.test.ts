import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { startService } from '../../src/service.ts'
import { readStream } from '../support/chat.ts'
import { TestClock, TestLoop } from '../support/clock.ts'
import { connectTo } from '../support/connection.ts'
import { eventually } from '../support/eventually.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'
import { onceAsked, temporaryFolder } from '../support/service.ts'
import { settingsOf } from '../support/test-database.ts'
import { chunkText, completion, json, upstreamForThisTest } from '../support/upstream.ts'

const key = 'a-key-of-one-who-goes'
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }

/** Reads a path on a connection that is open already. @returns the reply, with its head */
async function readOn(connection: Awaited<ReturnType<typeof connectTo>>, path: string): Promise<string> {
  const before = connection.text().length
  connection.socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  return eventually(() => {
    const reply = connection.text().slice(before)
    expect(reply).toMatch(/\r\n\r\n./)
    return reply
  })
}

const ask = ({ url }: SpawnedService, stream: boolean, model = 'm'): Promise<Response> =>
  fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], stream }),
  })

it('(s) at SIGTERM /readyz says that it drains, requests are still served and close their connections, and streams go on', async () => {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const upstream = await upstreamForThisTest()
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models: onceAsked(upstream.url) }))
  // The drain does not end during the test.
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { DATA_DIR: folder.path, BOOTSTRAP_KEY: key, DRAIN_SECONDS: '3600' },
  })
  const idle = await connectTo(service.url)
  expect(await readOn(idle, '/livez')).not.toMatch(/connection: close/i)
  const held = Promise.withResolvers<void>()
  const events = [chunkText({ content: 'One two' }), chunkText({}, 'stop'), '[DONE]'].map((data) => `data: ${data}\n\n`)
  upstream.answer(async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(events[0])
    await held.promise
    response.end(events.slice(1).join(''))
  })
  const stream = await ask(service, true)
  upstream.answer(async (response, call) => {
    await held.promise
    await json(completion('Done.'))(response, call)
  })
  const waiting = ask(service, false)
  await eventually(() => expect(upstream.calls).toHaveLength(2))

  service.process.kill('SIGTERM')
  const readiness = await eventually(async () => {
    const answer = await fetch(`${service.url}/readyz`)
    expect(answer.status).toBe(503)
    return answer
  })
  expect(await readiness.text()).toBe('{"status":"draining"}')
  expect(readiness.headers.get('connection')).toBe('close')
  const added = await fetch(`${service.url}/plants`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ name: 'Fern' }),
  })
  expect([added.status, added.headers.get('connection')]).toEqual([200, 'close'])
  expect((await fetch(`${service.url}/livez`)).status).toBe(200)
  // The connection that was idle serves one more request, and says that it is the last.
  expect(await readOn(idle, '/plants')).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*connection: close\r\n[\s\S]*Fern/i)
  await idle.closed
  held.resolve()
  expect((await readStream(stream)).isDone).toBe(true)
  const whole = await waiting
  expect([whole.status, whole.headers.get('connection')]).toEqual([200, 'close'])
  await whole.text()
  const late = await ask(service, true, 'understudy')
  expect([late.status, late.headers.get('connection')]).toEqual([200, 'close'])
  expect((await readStream(late)).isDone).toBe(true)

  expect(service.process.exitCode).toBe(null)
  service.process.kill('SIGINT')
  expect(await service.exited).toBe(1)
})

it('(s) a drain lasts for DRAIN_SECONDS; then the listener closes, and idle connections with it', async () => {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const clock = new TestClock()
  const environment = { ...(await settingsOf(folder.path)), PORT: '0', LOG_LEVEL: 'silent', DRAIN_SECONDS: '7' }
  const service = await startService(readConfig({ DATA_DIR: folder.path, ...environment }), {
    clock,
    loop: new TestLoop(),
  })
  const idle = await connectTo(service.address)
  await readOn(idle, '/livez')
  let isOver = false
  const over = service.drain().then(() => {
    isOver = true
  })
  await clock.untilWaiting(7000)
  clock.advance(6999)
  expect((await fetch(`${service.address}/readyz`)).status).toBe(503)
  expect(isOver).toBe(false)
  clock.advance(1)
  await over
  expect(idle.socket.destroyed).toBe(false)
  await service.close()
  await idle.closed
  await expect(connectTo(service.address)).rejects.toThrow('ECONNREFUSED')
})
