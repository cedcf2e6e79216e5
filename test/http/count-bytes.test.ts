import { describe, expect, it, onTestFinished } from 'vitest'
import { cardOfV3 } from '../support/cards.ts'
import { type Connection, connectTo } from '../support/connection.ts'
import { eventually, until } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'

const kilobyte = 1024
/** The lowest MAX_IN_FLIGHT_BYTES that the body limits below allow. */
const maxInFlightBytes = 2 * 400 * kilobyte
const limits = {
  PLANT_BODY_LIMIT: String(400 * kilobyte),
  CHAT_BODY_LIMIT: String(400 * kilobyte),
  CARD_BODY_LIMIT: String(400 * kilobyte),
  MAX_IN_FLIGHT_BYTES: String(maxInFlightBytes),
  METRICS_PORT: '0',
}

/** Sends the headers of a request and the first bytes of its body. */
async function begin(
  service: TestService,
  key: string,
  bytes: number,
  announced = 400 * kilobyte,
): Promise<Connection> {
  const head = [
    'POST /plants HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${announced}`,
  ]
  const connection = await connectTo(service.url, `${head.join('\r\n')}\r\n\r\n`)
  connection.socket.write(Buffer.alloc(bytes, ' '))
  return connection
}

/** The metrics of bytes in flight. */
async function figures({ metricsUrl }: TestService) {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text()
  const figure = (name: string) => Number(new RegExp(`^conservatory_in_flight_${name} (\\d+)`, 'm').exec(text)?.[1])
  return { bytes: figure('bytes'), refusals: figure('refusals_total') }
}

async function untilHeld(service: TestService, bytes: number): Promise<void> {
  await eventually(async () => expect((await figures(service)).bytes).toBe(bytes))
}

/** A plant of slightly more than so many bytes. */
const plantOf = (bytes: number) => ({ name: 'Fern', ignored: 'x'.repeat(bytes) })

const overloaded = /^HTTP\/1\.1 503 [\s\S]*\r\nretry-after: 1\r\n[\s\S]*"error":503/i

describe('large bodies', () => {
  let service: TestService
  let other: string
  let third: string

  async function start(): Promise<void> {
    service = await serviceForThisTest(limits)
    other = await service.makeKey('other')
    third = await service.makeKey('third')
  }

  it('are counted as they arrive, not as they are announced, and not after their sender leaves', async () => {
    await start()
    const silent = await begin(service, service.key, 0)
    const small = await begin(service, service.key, 64 * kilobyte)
    const large = await begin(service, service.key, 100 * kilobyte)
    await untilHeld(service, 100 * kilobyte)
    large.socket.write(Buffer.alloc(50 * kilobyte, ' '))
    await untilHeld(service, 150 * kilobyte)
    for (const { socket } of [silent, small, large]) socket.destroy()
    await untilHeld(service, 0)
    expect((await figures(service)).refusals).toBe(0)
  })

  it('of one account may have half of MAX_IN_FLIGHT_BYTES; beyond it a 503 comes before the body ends', async () => {
    await start()
    const held = await begin(service, service.key, 300 * kilobyte)
    await untilHeld(service, 300 * kilobyte)
    const refused = await begin(service, service.key, 200 * kilobyte)
    await until(() => refused.text().includes('\r\n\r\n'))
    expect(refused.text()).toMatch(overloaded)
    expect(refused.text()).toMatch(/\r\nconnection: close\r\n/i)
    // The client that is still sending can read the reply.
    refused.socket.write(Buffer.alloc(100 * kilobyte, ' '))
    await refused.closed
    expect(await figures(service)).toEqual({ bytes: 300 * kilobyte, refusals: 1 })
    // Small bodies of the same account are accepted, and bodies of other accounts too.
    expect((await service.request('/plants', { json: plantOf(60 * kilobyte) })).status).toBe(200)
    const theirs = await begin(service, other, 200 * kilobyte)
    await untilHeld(service, 500 * kilobyte)
    held.socket.destroy()
    theirs.socket.destroy()
    await untilHeld(service, 0)
    expect((await service.request('/plants', { json: plantOf(150 * kilobyte) })).status).toBe(200)
  })

  it('may use the last quarter of MAX_IN_FLIGHT_BYTES if their account has no other bytes in flight', async () => {
    await start()
    await begin(service, service.key, 350 * kilobyte)
    await untilHeld(service, 350 * kilobyte)
    await begin(service, other, 240 * kilobyte)
    await untilHeld(service, 590 * kilobyte)
    const second = await begin(service, other, 100 * kilobyte)
    await second.closed
    expect(second.text()).toMatch(overloaded)
    await begin(service, third, 200 * kilobyte)
    await untilHeld(service, 790 * kilobyte)
    const last = await begin(service, third, 100 * kilobyte)
    await last.closed
    expect(last.text()).toMatch(overloaded)
    expect((await figures(service)).bytes).toBe(790 * kilobyte)
  })

  it('in pieces of one byte without a length are counted and read too', async () => {
    await start()
    const text = JSON.stringify(plantOf(70 * kilobyte))
    const head = `POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
    const pieces = [...text].map((letter) => `1\r\n${letter}\r\n`)
    const whole = await connectTo(service.url, `${head}${pieces.join('')}`)
    await untilHeld(service, text.length)
    whole.socket.write('0\r\n\r\n')
    await until(() => whole.text().includes('"name":"Fern"'))
    const endless = await connectTo(service.url, `${head}${pieces.join('').repeat(6)}`)
    await endless.closed
    expect(endless.text()).toMatch(/^HTTP\/1\.1 413 /)
  })

  it('time out, and are not counted after that', async () => {
    service = await serviceForThisTest({ ...limits, REQUEST_TIMEOUT: '1' })
    const { closed, text } = await begin(service, service.key, 100 * kilobyte)
    await untilHeld(service, 100 * kilobyte)
    await closed
    expect(text()).toMatch(/^HTTP\/1\.1 408 /)
    await untilHeld(service, 0)
  })

  it('without a key, or with a wrong key, are not read', async () => {
    await start()
    for (const key of ['', 'csv_wrong']) {
      const { socket, text } = await begin(service, key, 0)
      await until(() => text().includes('\r\n\r\n'))
      expect(text()).toMatch(/^HTTP\/1\.1 401 /)
      socket.write(Buffer.alloc(200 * kilobyte, ' '))
      expect(await figures(service)).toEqual({ bytes: 0, refusals: 0 })
    }
  })
})

describe('large replies', () => {
  it('are counted until their reader has read them or left, and refused beyond the share of the account', async () => {
    const service = await serviceForThisTest(limits)
    const names = Array.from({ length: 300 }, () => '🌵'.repeat(255))
    await Promise.all(names.map((name) => service.request('/plants', { json: { name } })))
    const page = await (await service.request('/plants?limit=300')).text()
    const bytes = Buffer.byteLength(page)
    expect(bytes).toBeGreaterThan(300 * kilobyte)
    await untilHeld(service, 0)
    // Many replies on one connection: the kernel's buffers hold the first replies, and the service holds the next one.
    const get = `GET /plants?limit=300 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\n\r\n`
    const reader = await connectTo(service.url)
    reader.socket.pause()
    reader.socket.write(get.repeat(60))
    await untilHeld(service, bytes)
    const refused = await service.request('/plants?limit=300')
    expect(refused.headers.get('etag')).toBeNull()
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(await refused.json()).toMatchObject({ error: 503 })
    expect((await service.request('/plants?limit=300', { method: 'HEAD' })).status).toBe(200)
    // A small reply is served.
    expect((await service.request('/plants?limit=1')).status).toBe(200)
    const other = await service.makeKey('other')
    expect((await service.request('/plants', { headers: { authorization: `Bearer ${other}` } })).status).toBe(200)
    reader.socket.destroy()
    await untilHeld(service, 0)
    expect(await (await service.request('/plants?limit=300')).text()).toBe(page)
  })

  it('are counted by their bytes and not by their characters', async () => {
    const service = await serviceForThisTest(limits)
    const names = Array.from({ length: 120 }, () => '\u6728'.repeat(255))
    await Promise.all(names.map((name) => service.request('/plants', { json: { name } })))
    const page = await (await service.request('/plants?limit=120')).text()
    expect(page.length).toBeLessThan(64 * kilobyte)
    const bytes = Buffer.byteLength(page)
    expect(bytes).toBeGreaterThan(64 * kilobyte)
    await untilHeld(service, 0)
    const reader = await connectTo(service.url)
    onTestFinished(() => void reader.socket.destroy())
    reader.socket.pause()
    const get = `GET /plants?limit=120 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\n\r\n`
    reader.socket.write(get.repeat(200))
    await eventually(async () => expect((await figures(service)).bytes).toBeGreaterThanOrEqual(bytes))
  })

  it('with a card are counted for each reader', async () => {
    const service = await serviceForThisTest(limits)
    const card = JSON.stringify({ ...cardOfV3, data: { ...cardOfV3.data, description: 'x'.repeat(300 * kilobyte) } })
    expect((await service.request('/characters/Fern', { method: 'PUT', body: card })).status).toBe(201)
    const get = `GET /characters/Fern?format=json HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\n\r\n`
    const reader = await connectTo(service.url)
    reader.socket.pause()
    reader.socket.write(get.repeat(60))
    await untilHeld(service, card.length)
    await expectError(await service.request('/characters/Fern?format=json'), 'chat', 503)
    reader.socket.destroy()
    await untilHeld(service, 0)
    const whole = await service.request('/characters/Fern?format=json')
    expect(await whole.text()).toBe(card)
    expect(whole.headers.get('content-length')).toBe(String(card.length))
  })
})
