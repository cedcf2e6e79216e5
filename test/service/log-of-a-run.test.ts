import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import fc from 'fast-check'
import { expect, it, onTestFinished, vi } from 'vitest'
import { readManifest } from '../../src/manifest.ts'
import { databaseFacts } from '../../src/stores/open.ts'
import { serveForThisTest } from '../support/command.ts'
import { spawnService } from '../support/process.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

it.each([
  ['SIGTERM', 'SQLite'],
  ['SIGINT', 'PostgreSQL'],
] as const)(
  'the log begins with what runs, has times in ISO 8601, and says that %s stops the service over %s',
  async (signal, engine) => {
    const url = engine === 'SQLite' ? '' : await newPostgresDatabase()
    const service = await spawnService(process.execPath, ['src/main.ts'], {
      environment: { DATABASE_URL: url, OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', DEFAULT_MODEL: 'gpt' },
    })
    service.process.kill(signal)
    expect(await service.exited).toBe(0)
    const lines = service
      .stdout()
      .trim()
      .split('\n')
      .map((line): Record<string, unknown> => JSON.parse(line))
    expect(lines[0]).toMatchObject({
      msg: 'Conservatory starts',
      version: readManifest().version,
      ...(engine === 'SQLite'
        ? { engine: 'sqlite', database: expect.stringMatching(/conservatory\.db$/) }
        : { engine: 'postgresql', database_host: new URL(url).host, database: new URL(url).pathname.slice(1) }),
      models: expect.arrayContaining(['understudy', '*']),
      default_model: 'gpt',
    })
    for (const { time } of lines) expect(new Date(String(time)).toISOString()).toBe(time)
    expect(lines.filter((line) => line['signal'] === signal)).toHaveLength(1)
  },
)

it('the log never has the user or the password of DATABASE_URL, also if they have characters that a URL encodes', () => {
  const part = fc.stringMatching(/^[!-~]{0,8}$/)
  const urls = fc.tuple(part, part, fc.constantFrom('', '?sslmode=require', '?password=CANARY@x/y', '#a@b'))
  fc.assert(
    fc.property(urls, ([user, password, end]) => {
      const databaseUrl = `postgres://CANARY${user}:CANARY${password}CANARY@db.example:5432/plants${end}`
      const facts = JSON.stringify(databaseFacts({ databasePath: '', databaseUrl }))
      expect(facts).not.toContain('CANARY')
      if (/^\w*$/.test(user + password + end))
        expect(facts).toContain('"database_host":"db.example:5432","database":"plants"')
    }),
  )
})

it.each([
  ['0.0.0.0', ['http://192.0.2.7:PORT']],
  ['::', ['http://192.0.2.7:PORT', 'http://[2001:db8::7]:PORT']],
  ['127.0.0.1', []],
])('HOST=%s prints the addresses of the machine: %j', async (host, others) => {
  const address = { netmask: '', mac: '', cidr: null, internal: false }
  vi.spyOn(os, 'networkInterfaces').mockReturnValue({
    lo: [{ ...address, address: '127.0.0.1', family: 'IPv4', internal: true }],
    eth0: [
      { ...address, address: '192.0.2.7', family: 'IPv4' },
      { ...address, address: '2001:db8::7', family: 'IPv6', scopeid: 0 },
      { ...address, address: 'fe80::7', family: 'IPv6', scopeid: 2 },
    ],
  })
  syncBuiltinESMExports()
  onTestFinished(() => {
    vi.restoreAllMocks()
    syncBuiltinESMExports()
  })
  const { url, stderr } = await serveForThisTest({ HOST: host })
  const printed = stderr().match(/(?<=also listens on )\S+/g) ?? []
  expect(printed).toStrictEqual(others.map((other) => other.replace('PORT', new URL(url).port)))
})
