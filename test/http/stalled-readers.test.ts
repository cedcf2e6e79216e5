import { once } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { connectTo } from '../support/connection.ts'
import { until } from '../support/eventually.ts'
import { memoryOf } from '../support/process.ts'
import { onceAsked } from '../support/service.ts'
import { expectServed, megabyte, requestHead, startForSlowClients } from '../support/slow-clients.ts'
import { sqlForThisTest } from '../support/test-sql.ts'
import { chunkText, type Script, upstreamForThisTest } from '../support/upstream.ts'

const json = 'Content-Type: application/json'

describe('a client that does not read its reply', () => {
  it('slows its upstream by backpressure, costs little memory, and is disconnected together with its upstream', async () => {
    const event = `data: ${chunkText({ content: 'x'.repeat(64 * 1024) })}\n\n`
    let sent = 0
    const flood: Script = async (response, call) => {
      let isOver = false
      void call.aborted.then(() => {
        isOver = true
      })
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      while (sent < 512 * megabyte && !isOver) {
        sent += event.length
        const isFree = response.write(event)
        const drained = new Promise((resolve) => response.once('drain', resolve))
        await (isFree ? new Promise((resolve) => setImmediate(resolve)) : Promise.race([drained, call.aborted]))
      }
    }
    const upstream = await upstreamForThisTest(flood)
    const service = await startForSlowClients({ READER_TIMEOUT: '2', SSE_KEEPALIVE_MS: '100' }, onceAsked(upstream.url))
    await expectServed(service)
    const before = memoryOf(service)
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true })
    const request = requestHead('POST', '/chat/completions', json, `Content-Length: ${body.length}`) + body
    const readers = await Promise.all([1, 2, 3].map(() => connectTo(service.url)))
    for (const { socket } of readers) {
      socket.pause()
      socket.write(request)
    }
    await upstream.called(3)
    await expectServed(service)
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, memoryOf(service))
    }, 200)
    onTestFinished(() => clearInterval(watch))
    await Promise.all(upstream.calls.map(({ aborted }) => aborted))
    // The sent bytes are in the kernel's buffers of six connections, and only a little is in the service.
    expect(sent).toBeLessThan(128 * megabyte)
    expect(most - before).toBeLessThan(128 * megabyte)
    for (const { socket } of readers) socket.resume()
    await Promise.all(readers.map(({ closed }) => closed))
    for (const { text } of readers) {
      expect(text()).toMatch(/^HTTP\/1\.1 200 /)
      expect(text()).not.toContain('[DONE]')
    }
    await until(() => service.stdout().match(/"state":"client_gone"/g)?.length === 3)
    await expectServed(service)
  })

  it('loses its connection, so that no snapshot stays open for its long list', async () => {
    const service = await startForSlowClients({ READER_TIMEOUT: '2' })
    const sql = await sqlForThisTest(service.dataDirectory)
    // 20 MB, far more than the sockets' buffers hold: the service must wait for the reader.
    await sql.run(`
      INSERT INTO plants (account, id, name)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 10000)
      SELECT accounts.id, ids.id, '${'x'.repeat(2000)}' FROM ids, accounts`)
    expect(await sql.hasReader()).toBe(false)
    const long = await connectTo(service.url, requestHead('GET', '/plants'))
    // The snapshot of the list is open now. The test does not check that: on a busy machine it may be closed again already.
    await once(long.socket, 'data')
    long.socket.pause()
    await sql.run("INSERT INTO plants (account, id, name) SELECT id, 20000, 'newer' FROM accounts")
    const short = await connectTo(service.url)
    short.socket.pause()
    // Ten replies of 2 MB are as much as the long list, and ten requests are too few to be refused under load.
    short.socket.write(requestHead('GET', '/plants?limit=1000').repeat(10))
    await expectServed(service)
    await until(async () => !(await sql.hasReader()))
    await until(() => (service.stdout().match(/client_gone/g)?.length ?? 0) > 1)
    for (const { socket } of [long, short]) socket.resume()
    await Promise.all([long.closed, short.closed])
    expect(long.text()).toMatch(/^HTTP\/1\.1 200 /)
    // The reply breaks off without the last chunk, so that it does not look complete.
    expect(long.text()).not.toMatch(/0\r\n\r\n$/)
    expect(memoryOf(service)).toBeLessThan(400 * megabyte)
    await expectServed(service)
  })
})
