import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request as send } from 'node:http'
import { expect, it } from 'vitest'
import { makeKey } from '../../src/access/key.ts'
import { TestClock } from '../support/clock.ts'
import { type Served, serveForThisTest } from '../support/command.ts'
import { eventually, until } from '../support/eventually.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'

const here = '127.0.0.1'
const proxies = `${here}, 10.0.0.0/8,2001:db8:aa::/48 , ::1`
const start = (trusted: string) => serveForThisTest({ TRUSTED_PROXIES: trusted })

/** Sends a request. A header with several values is repeated. @returns the request id in the reply */
async function ask(url: string, headers: OutgoingHttpHeaders): Promise<string> {
  const asking = send(url, { headers }).end()
  const [reply]: IncomingMessage[] = await once(asking, 'response')
  reply?.resume()
  return String(reply?.headers['x-request-id'])
}

/** The client's address in the log line of a request. */
function addressInLog(service: Served, requestId: string): Promise<unknown> {
  return eventually(() => {
    const line = service
      .stdout()
      .split('\n')
      .find((text) => text.includes(requestId))
    if (line === undefined) throw new Error('the request is not in the log')
    const { from }: Record<string, unknown> = JSON.parse(line)
    return from
  })
}

const forwarded = (...lines: readonly string[]): OutgoingHttpHeaders => ({ 'x-forwarded-for': [...lines] })

it('the log has the rightmost address of X-Forwarded-For that is not a trusted proxy', async () => {
  const service = await start(proxies)
  const cases: readonly (readonly [OutgoingHttpHeaders, string])[] = [
    [{}, here],
    [forwarded('203.0.113.7'), '203.0.113.7'],
    // An address that the caller claims is left of the address that the proxy adds.
    [forwarded('198.51.100.1, 203.0.113.7'), '203.0.113.7'],
    [forwarded('127.0.0.1,203.0.113.7'), '203.0.113.7'],
    [forwarded('198.51.100.1', '203.0.113.7'), '203.0.113.7'],
    // The request came through several proxies.
    [forwarded('203.0.113.7, 10.1.2.3'), '203.0.113.7'],
    [forwarded('198.51.100.1, 203.0.113.7,10.1.2.3, 2001:db8:aa:1::5'), '203.0.113.7'],
    [forwarded('203.0.113.7, 11.0.0.1'), '11.0.0.1'],
    [forwarded('10.0.0.1, 10.0.0.2'), '10.0.0.1'],
    // The address has another notation.
    [forwarded('2001:DB8:0:0::7'), '2001:db8::7'],
    [forwarded('::ffff:203.0.113.7'), '203.0.113.7'],
    [forwarded('203.0.113.7:4711'), '203.0.113.7'],
    [forwarded('[2001:db8::7]:4711'), '2001:db8::7'],
    [forwarded('[2001:db8::7]'), '2001:db8::7'],
    [forwarded('fe80::7%a-word'), 'fe80::7'],
    // An invalid address ends the chain: the address of the proxy that sent it is used.
    [forwarded('unknown'), here],
    [forwarded('203.0.113.7, a-word'), here],
    [forwarded('203.0.113.7, a-word, 10.0.0.9'), '10.0.0.9'],
    [forwarded('203.0.113.7,'), here],
    [forwarded('999.1.1.1'), here],
    [forwarded(''), here],
    // Other headers are not read.
    [{ forwarded: 'for=203.0.113.7', 'x-real-ip': '203.0.113.7', 'client-ip': '203.0.113.7' }, here],
  ]
  for (const [headers, from] of cases) {
    expect([headers, await addressInLog(service, await ask(`${service.url}/livez`, headers))]).toEqual([headers, from])
  }
  expect(service.stdout()).not.toContain('a-word')
})

it.each([
  ['', 'no proxy is trusted'],
  ['10.0.0.0/8, 127.0.0.2', 'other proxies are trusted'],
])('the log has the address of the connection with TRUSTED_PROXIES="%s": %s', async (trusted) => {
  const service = await start(trusted)
  for (const headers of [{}, forwarded('203.0.113.7'), forwarded('10.0.0.1'), forwarded('10.0.0.1, 203.0.113.7')]) {
    expect(await addressInLog(service, await ask(`${service.url}/livez`, headers))).toBe(here)
  }
})

/**
 * Sends three hundred wrong keys in parallel, and counts the statuses of the replies. If all requests have one address, a
 * hundred get a 401 at once, sixty-four get a 401 when the test advances its clock, and the others get a 429.
 */
async function guess(service: TestService, clock: TestClock, waiting: number, addressOf: (index: number) => string) {
  const statuses: number[] = []
  const guesses = Array.from({ length: 300 }, async (_, index) => {
    const headers = { authorization: makeKey(), 'x-forwarded-for': addressOf(index) }
    statuses.push((await service.request('/models', { headers })).status)
  })
  await until(() => statuses.length === guesses.length - waiting)
  clock.advance(1000)
  await Promise.all(guesses)
  return {
    wrong: statuses.filter((status) => status === 401).length,
    refused: statuses.filter((status) => status === 429).length,
  }
}

const slowedDown = { wrong: 164, refused: 136 }

it('wrong keys slow down their address behind a trusted proxy, and no other address behind it', async () => {
  const clock = new TestClock()
  const service = await serviceForThisTest({ TRUSTED_PROXIES: here }, undefined, { clock })
  expect(await guess(service, clock, 64, () => '203.0.113.7')).toEqual(slowedDown)
  const others = await guess(service, clock, 0, (index) => `203.0.113.${8 + (index % 3)}`)
  expect(others).toEqual({ wrong: 300, refused: 0 })
  // A client that claims other addresses in X-Forwarded-For still counts as one address.
  expect(await guess(service, clock, 64, (index) => `192.0.2.${index % 200}, 198.51.100.9`)).toEqual(slowedDown)
})

it('without trusted proxies, wrong keys count for the address of the connection, whatever the headers say', async () => {
  const clock = new TestClock()
  const service = await serviceForThisTest({}, undefined, { clock })
  expect(await guess(service, clock, 64, (index) => `203.0.113.${index % 250}`)).toEqual(slowedDown)
})

it('no forwarded host or protocol changes a reply, also from a trusted proxy', async () => {
  const service = await serviceForThisTest({ TRUSTED_PROXIES: here })
  for (const name of ['Fern', 'Moss']) await service.request('/plants', { json: { name } })
  const forged = {
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    'x-forwarded-port': '443',
    'x-forwarded-prefix': '/evil',
    forwarded: 'host=evil.example;proto=https',
  }
  for (const path of ['/plants?limit=1', '/openapi.json', '/docs', '/nowhere']) {
    const answer = async (headers: Readonly<Record<string, string>>) => {
      const reply = await fetch(service.url + path, {
        headers: { authorization: `Bearer ${service.key}`, ...headers },
        redirect: 'manual',
      })
      const sent = [...reply.headers].filter(([name]) => !['date', 'x-request-id'].includes(name))
      return { status: reply.status, sent, text: await reply.text() }
    }
    expect(await answer(forged)).toEqual(await answer({}))
  }
})
