import { execFileSync } from 'node:child_process'
import { describe, expect, it, onTestFinished } from 'vitest'
import { connectTo } from '../support/connection.ts'
import { memoryOf } from '../support/process.ts'
import { expectServed, megabyte, requestHead, startForSlowClients } from '../support/slow-clients.ts'

const json = 'Content-Type: application/json'

describe('a request that does not arrive in time', () => {
  it('gets a 408 in the error shape of its route, and its connection is closed, even if it still sends slowly', async () => {
    const service = await startForSlowClients({ REQUEST_TIMEOUT: '2' })
    const bodies = 'Content-Length: 1000'
    const starts: readonly (readonly [start: string, drip: string])[] = [
      ['', ''],
      ['GET /pl', ''],
      ['GET /plants HTTP/1.1\r\n', 'X-A: b\r\n'],
      [requestHead('POST', '/plants', json, bodies), ''],
      [requestHead('POST', '/plants', json, bodies), ' '],
      [requestHead('POST', '/plants', json, 'Transfer-Encoding: chunked'), '1\r\n \r\n'],
    ]
    const connections = await Promise.all(starts.map(([start]) => connectTo(service.url, start)))
    const dripping = setInterval(() => {
      for (const [index, { socket }] of connections.entries()) {
        if (socket.writable) socket.write(starts[index]?.[1] ?? '')
      }
    }, 50)
    onTestFinished(() => clearInterval(dripping))
    await expectServed(service)
    await Promise.all(connections.map(({ closed }) => closed))
    for (const [index, { text }] of connections.entries()) {
      expect(text()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
      expect(text()).toContain('\r\nConnection: close\r\n')
      expect(text()).toContain(index > 2 ? '{"error":408,"message":"' : '"code":"request_timeout"')
    }
    await expectServed(service)
  })

  it('costs little memory even ten thousand times, delays no other request, and ends by itself', async () => {
    const limit = Number(execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }))
    const count = Math.min(10_000, Math.floor(limit / 2))
    const service = await startForSlowClients({ REQUEST_TIMEOUT: '12', LOG_LEVEL: 'silent' })
    await expectServed(service)
    const before = memoryOf(service)
    const connections = []
    while (connections.length < count) {
      // Only 250 connections at a time, so that the queue of the listening socket holds them.
      connections.push(...(await Promise.all(Array.from({ length: 250 }, () => connectTo(service.url)))))
    }
    await expectServed(service)
    expect(memoryOf(service) - before).toBeLessThan(300 * megabyte)
    await Promise.all(connections.map(({ closed }) => closed))
    expect(connections.every(({ text }) => text().startsWith('HTTP/1.1 408 '))).toBe(true)
    await expectServed(service)
  }, 60_000)
})

describe('data that is not HTTP behind a valid request', () => {
  it('is refused once, after the reply to the valid request, and the connection is closed', async () => {
    const service = await startForSlowClients({})
    const body = '{"name": "Moss"}'
    const post = requestHead('POST', '/plants', json, `Content-Length: ${body.length}`) + body
    const { socket, text, closed } = await connectTo(service.url, `${post}${post}\0\x01 garbage\r\n\r\n`)
    const more = setInterval(() => socket.writable && socket.write('garbage'.repeat(1000)), 5)
    onTestFinished(() => clearInterval(more))
    await closed
    expect(text().match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 400'])
    expect(text()).toMatch(/well-formed HTTP[^\n]*$/)
    const plants = await fetch(`${service.url}/plants`, { headers: { authorization: `Bearer ${service.key}` } })
    expect(await plants.json()).toEqual([{ name: 'Moss' }, { name: 'Moss' }])
  })
})
