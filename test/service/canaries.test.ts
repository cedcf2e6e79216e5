import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  type CanaryRequest,
  canaryModels,
  cardText,
  operatorKeys,
  quotingScript,
  requestsOf,
  words,
  wrongKeys,
} from '../support/canary-requests.ts'
import { compileCache, conservatory } from '../support/command.ts'
import { sendRaw } from '../support/http.ts'
import { often } from '../support/often.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { isOverPostgres, openStoresOf } from '../support/test-database.ts'
import { sqlForThisTest, type TestSql } from '../support/test-sql.ts'
import { upstreamForThisTest } from '../support/upstream.ts'

const requestsInAll = often(500)
const atOnce = 16

/** Paths that show data of the other requests. They are read at the end. */
const readAtTheEnd = [
  '/usage?by=day',
  '/usage?by=model',
  '/usage?by=key',
  '/usage?by=character',
  '/keys',
  '/audit?limit=1000',
  '/models',
  '/openapi.json',
  '/livez',
  '/readyz',
  '/metrics',
]

/** Texts of callers, which may be found only where they belong. */
const allWords = Object.values(words)
/** Secret parts of keys, after the public prefix. They may be found nowhere. */
const partsOf = (keys: readonly string[]) => keys.flatMap((key) => [key.slice(7, 19), key.slice(-12)])

/** The canaries that are in a text and are not allowed there. */
function leaksIn(text: string, canaries: readonly string[], allowed: readonly string[] = []): readonly string[] {
  return canaries.filter((canary) => !allowed.includes(canary) && text.includes(canary))
}

interface Said {
  readonly request: CanaryRequest
  readonly status: number
  /** Headers and body. */
  readonly text: string
}

async function send(service: SpawnedService, key: string, request: CanaryRequest): Promise<Said> {
  const { path, method = 'GET', headers, body, leave } = request
  const leaving = new AbortController()
  const response = await fetch(service.url + path, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      'user-agent': words.header,
      cookie: `session=${words.header}`,
      'x-forwarded-for': words.header,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
    signal: leaving.signal,
  })
  const started = `${JSON.stringify([...response.headers])}`
  if (!leave) return { request, status: response.status, text: started + Buffer.from(await response.arrayBuffer()) }
  leaving.abort()
  return { request, status: response.status, text: started }
}

/** Makes three keys of a guest while the service runs: for everything, for reading plants only, and a revoked key. */
async function makeKeys(dataDirectory: string): Promise<Readonly<Record<'guest' | 'plantsOnly' | 'revoked', string>>> {
  const { access, close } = await openStoresOf(dataDirectory)
  try {
    await access.createAccount('guest')
    const [guest, plantsOnly, revoked] = [
      await access.createKey({ account: 'guest', scopes: ['plants:read', 'plants:write', 'chat', 'characters:write'] }),
      await access.createKey({ account: 'guest', scopes: ['plants:read'] }),
      await access.createKey({ account: 'guest', scopes: ['chat'] }),
    ]
    await access.revokeKey(revoked.key.prefix)
    return { guest: guest.secret, plantsOnly: plantsOnly.secret, revoked: revoked.secret }
  } finally {
    await close()
  }
}

/** Sends all kinds of requests several times, `atOnce` of them in parallel. */
async function sendAll(service: SpawnedService, keys: Awaited<ReturnType<typeof makeKeys>>): Promise<Said[]> {
  const wrong = [...wrongKeys, keys.revoked]
  const queue: { readonly key: string; readonly request: CanaryRequest }[] = []
  for (let turn = 0; queue.length < requestsInAll; turn++) {
    // The guest's key is used: the operator's key may read every card, and would not show what is hidden from others.
    for (const request of requestsOf(turn, wrong, keys.plantsOnly)) queue.push({ key: keys.guest, request })
  }
  const said: Said[] = []
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) said.push(await send(service, next.key, next.request))
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return said
}

/** Requests that are malformed HTTP, or that Node's parser accepts and the service refuses. */
const rawRequests = (key: string): readonly string[] => [
  `GET /${words.malformed} HTTP/1.1\r\nHost: here\r\nBad ${words.header}\r\n\r\n`,
  `${words.malformed} /plants HTTP/1.1\r\nHost: here\r\nAuthorization: ${key}\r\n\r\n`,
  `GET /plants HTTP/1.1\r\nHost: here\r\nAuthorization: ${key}\r\nAuthorization: ${key}\r\nConnection: close\r\n\r\n`,
  `GET /plants HTTP/1.1\r\nAuthorization: ${key}\r\nConnection: close\r\n\r\n`,
  `POST /plants HTTP/1.1\r\nHost: here\r\nContent-Length: ${words.malformed}\r\nAuthorization: ${key}\r\n\r\n`,
]

/** The rows of each table as text. */
function tablesOf(
  sql: TestSql,
  tables: readonly string[],
): Promise<readonly (readonly [table: string, text: string])[]> {
  return Promise.all(
    tables.map(async (table) => {
      const rows = await sql.run(`SELECT * FROM ${table}`)
      return [table, rows.flatMap((row) => Object.values(row).map(String)).join('\n')] as const
    }),
  )
}

test('no key and no text is in a log, a reply, the ledger or the database, except where it belongs', async () => {
  const upstream = await upstreamForThisTest(quotingScript())
  const { path: dataDirectory, remove } = temporaryFolder()
  onTestFinished(remove)
  writeFileSync(join(dataDirectory, 'models.json'), JSON.stringify({ models: canaryModels(upstream.url) }))
  mkdirSync(join(dataDirectory, 'characters'))
  writeFileSync(join(dataDirectory, 'characters', 'rust.json'), cardText('Rust', words.folder))
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: {
      ...compileCache,
      ...operatorKeys,
      DATA_DIR: dataDirectory,
      LOG_LEVEL: 'trace',
      LIMITS: 'requests_per_minute=1000000',
    },
  })
  // The first start shows its key, but only this once.
  const greeting = service.stderr()
  expect(greeting).toContain(service.key)
  const keys = await makeKeys(dataDirectory)
  const allKeys = [service.key, ...Object.values(keys), ...wrongKeys, ...Object.values(operatorKeys)]
  const secrets = partsOf(allKeys)
  const canaries = [...allWords, ...secrets]

  await send(service, keys.guest, { path: '/characters', method: 'POST', body: cardText('Moss', words.card) })
  const said = await sendAll(service, keys)
  for (const bytes of rawRequests(keys.guest)) {
    const response = await sendRaw(service.url, bytes)
    said.push({
      request: { path: bytes },
      status: response.status,
      text: `${JSON.stringify([...response.headers])}${await response.text()}`,
    })
  }
  for (const path of readAtTheEnd) {
    for (const key of [service.key, keys.guest]) said.push(await send(service, key, { path, shows: [words.model] }))
  }
  const commands = [
    'keys list --json',
    'accounts list --json',
    'usage --by model --csv',
    'usage --by character --json',
    'audit --json',
  ]
  const printed = await Promise.all(commands.map((line) => conservatory(line.split(' '), { DATA_DIR: dataDirectory })))
  expect(printed.map(({ code }) => code)).toEqual(commands.map(() => 0))
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(0)

  // All canaries were really sent and used; a canary that was never sent would not be found either.
  const statuses = new Set(said.map(({ status }) => status))
  for (const status of [200, 204, 400, 401, 403, 404, 405, 415, 502]) expect(statuses).toContain(status)
  const heard = JSON.stringify(upstream.calls)
  for (const part of [...Object.values(operatorKeys), words.message, words.parameter, words.card]) {
    expect(heard).toContain(part)
  }
  expect(service.stdout().match(/"msg":"request"/g)?.length).toBeGreaterThanOrEqual(requestsInAll)
  for (const word of [words.reply, words.plant, words.card]) {
    expect(said.some(({ text }) => text.includes(word))).toBe(true)
  }

  const replies = said.flatMap(({ request, status, text }) => {
    const leaks = leaksIn(text, canaries, request.shows)
    return leaks.length > 0 ? [{ leaks, path: request.path, body: request.body, status, text }] : []
  })
  expect(replies).toEqual([])
  const log = [...service.stdout().split('\n'), ...service.stderr().slice(greeting.length).split('\n')]
  expect(log.filter((line) => leaksIn(line, canaries).length > 0)).toEqual([])
  const ofCommands = printed.flatMap(({ stdout, stderr }) => leaksIn(stdout + stderr, canaries, [words.model]))
  expect(ofCommands).toEqual([])

  const belonging: Readonly<Record<string, readonly string[]>> = {
    plants: [words.plant],
    idempotency_keys: [words.plant, words.idempotency],
    characters: [words.card],
    character_versions: [words.card],
    requests: [words.model],
  }
  const sql = await sqlForThisTest(dataDirectory)
  const tables = await tablesOf(sql, await sql.tables())
  expect(tables.map(([table]) => table)).toEqual(expect.arrayContaining(Object.keys(belonging)))
  const kept = tables.map(([table, text]) => ({ table, leaks: leaksIn(text, canaries, belonging[table]) }))
  expect(kept.filter(({ leaks }) => leaks.length > 0)).toEqual([])
  // No other file has canaries, except the files that the operator wrote. The database file includes freed pages.
  const files = readdirSync(dataDirectory, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && file.name !== 'models.json' && !file.parentPath.endsWith('characters'))
    .map((file) => join(file.parentPath, file.name))
  expect(files.includes(join(dataDirectory, 'conservatory.db'))).toBe(!isOverPostgres)
  const belongs = Object.values(belonging).flat()
  const inFiles = files.map((file) => ({ file, leaks: leaksIn(readFileSync(file, 'latin1'), canaries, belongs) }))
  expect(inFiles.filter(({ leaks }) => leaks.length > 0)).toEqual([])
})
