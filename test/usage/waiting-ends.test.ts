import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it, onTestFinished, vi } from 'vitest'
import { openSqliteStores } from '../../src/stores/stores.ts'
import type { LedgerEntry } from '../../src/usage/ledger.ts'
import { readChatError } from '../support/chat.ts'
import { eventually } from '../support/eventually.ts'
import { disks } from '../support/full-disk.ts'
import { type LedgerRow, ledgerRows, spentBy } from '../support/limits.ts'
import { folderForThisTest, preset } from '../support/preset-service.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { openSql } from '../support/test-sql.ts'
import { completion, json, type Script, upstreamForThisTest } from '../support/upstream.ts'

/*
 * The records of chats while they cannot be written: another program holds SQLite's write lock for longer
 * than writes wait, or the disk is full.
 */

/** Holds the write lock of a database as another program. `outlast` moves the clock, so that no test waits five seconds. */
function lockOf(dataDirectory: string) {
  const other = new Database(join(dataDirectory, 'conservatory.db'))
  const clock = performance.now.bind(performance)
  let ahead = 0
  const now = vi.spyOn(performance, 'now').mockImplementation(() => clock() + ahead)
  onTestFinished(() => {
    other.close()
    now.mockRestore()
  })
  return {
    hold: () => other.exec('BEGIN IMMEDIATE'),
    release: () => other.exec('COMMIT'),
    /** Advances the clock of the waiting writes by six seconds at a time until the promise settles. */
    async outlast<T>(waiting: Promise<T>): Promise<T> {
      const passing = setInterval(() => {
        ahead += 6000
      }, 50)
      return waiting.finally(() => clearInterval(passing))
    },
  }
}

const messages = [{ role: 'user', content: 'Good morning to you.' }]

const chat = (service: TestService, model: string, max_tokens: number) =>
  service.request('/chat/completions', { json: { model, max_tokens, messages } })

/** An upstream that answers with 18 tokens when the test calls `answer`. */
async function waitingUpstream() {
  const answer = Promise.withResolvers<void>()
  const script: Script = async (response, call) => {
    await answer.promise
    return json(completion('hello'))(response, call)
  }
  return { upstream: await upstreamForThisTest(script), answer: answer.resolve }
}

async function rowsOf(dataDirectory: string): Promise<readonly LedgerRow[]> {
  const sql = await openSql(dataDirectory)
  try {
    return await ledgerRows(sql)
  } finally {
    await sql.close()
  }
}

it('after a lock of more than five seconds, chats with a limit for a day go on, and a chat that was refused is not recorded', async () => {
  const service = await serviceForThisTest({ LIMITS: 'tokens_per_day=1000' })
  const lock = lockOf(service.dataDirectory)
  for (let round = 1; round <= 2; round++) {
    lock.hold()
    const refused = await lock.outlast(chat(service, 'understudy', 20))
    expect(refused.status).toBe(503)
    expect((await readChatError(refused)).code).toBe('database_busy')
    lock.release()
    expect((await chat(service, 'understudy', 20)).status).toBe(200)
    const rows = await rowsOf(service.dataDirectory)
    expect(rows.map(({ state }) => state)).not.toContain('running')
    expect(rows).toHaveLength(round)
  }
})

it('the end of a chat during a long lock is counted at once, and written when the lock ends', async () => {
  const { upstream, answer } = await waitingUpstream()
  const service = await serviceForThisTest({ OPENAI_BASE_URL: upstream.url, LIMITS: 'tokens_per_day=1040' })
  const lock = lockOf(service.dataDirectory)
  const reply = chat(service, 'any', 1000)
  await eventually(() => expect(upstream.calls).toHaveLength(1))
  lock.hold()
  answer()
  expect((await lock.outlast(reply)).status).toBe(200)
  expect(await rowsOf(service.dataDirectory)).toMatchObject([{ state: 'running' }])
  // 18 of the day's 1,040 tokens are spent. The other reserved tokens are released.
  const tooMuch = await chat(service, 'understudy', 1020)
  expect([tooMuch.status, (await readChatError(tooMuch)).message]).toEqual([
    429,
    expect.stringContaining('tokens_per_day'),
  ])
  expect((await lock.outlast(chat(service, 'understudy', 990))).status).toBe(503)
  lock.release()
  await eventually(async () =>
    expect(await rowsOf(service.dataDirectory)).toMatchObject([
      { state: 'stop', prompt_tokens: 11, completion_tokens: 7 },
    ]),
  )
  const sql = await openSql(service.dataDirectory)
  onTestFinished(() => sql.close())
  expect(await spentBy(sql, 'account:')).toEqual([18])
})

const entry = (id: string, more: Partial<LedgerEntry> = {}): LedgerEntry => ({
  id,
  account: 1,
  keyId: 'key_1',
  keyPrefix: 'cv_ab12',
  model: 'any',
  modelUsed: null,
  character: null,
  created: Date.UTC(2026, 10, 20) / 1000,
  reservedTokens: 500,
  promptTokens: 0,
  completionTokens: 0,
  tokensExact: true,
  firstTokenMs: null,
  totalMs: 1,
  retries: 0,
  state: 'running',
  ...more,
})
const ended = (id: string, tokens: number) => entry(id, { state: 'stop', promptTokens: tokens })

it('the spent tokens of a key are known at any moment without a wait, even if they are not written yet', async () => {
  const folder = folderForThisTest()
  const stores = openSqliteStores(join(folder, 'conservatory.db'))
  onTestFinished(() => stores.close())
  stores.beginServing?.()
  const { ledger } = stores
  const lock = lockOf(folder)
  let turns = 0
  const spent = async () => {
    const before = turns
    const tokens = await ledger.spent('key:key_1', '2026-11-01', '2026-11-30')
    expect(turns).toBe(before)
    return tokens
  }
  const turning = setInterval(() => turns++, 1)
  onTestFinished(() => clearInterval(turning))

  for (const id of ['one', 'two', 'three']) await ledger.begin(entry(id))
  lock.hold()
  const first = ledger.finish(ended('one', 100))
  ledger.record(ended('free', 1))
  expect(await spent()).toBe(101)
  await expect(lock.outlast(first)).rejects.toMatchObject({ code: 'database_busy' })
  expect(await spent()).toBe(101)
  // A request that begins during the lock is refused, and not recorded. The ends of earlier requests are kept.
  await expect(lock.outlast(ledger.begin(entry('refused')))).rejects.toMatchObject({ code: 'database_busy' })
  const second = ledger.finish(ended('two', 20))
  expect(await spent()).toBe(121)
  lock.release()
  // The spent tokens are the same just after the write, and after a flush.
  const seen: Promise<number>[] = []
  await second.then(() => seen.push(spent()))
  expect(await Promise.all(seen)).toEqual([121])
  await ledger.flush()
  expect(await spent()).toBe(121)

  lock.hold()
  await expect(lock.outlast(ledger.finish(ended('three', 3)))).rejects.toMatchObject({ code: 'database_busy' })
  lock.release()
  // The begin of the next request also writes the ends whose writes have failed.
  await ledger.begin(entry('next'))
  expect((await rowsOf(folder)).map(({ id, state }) => [id, state])).toEqual([
    ['free', 'stop'],
    ['next', 'running'],
    ['one', 'stop'],
    ['three', 'stop'],
    ['two', 'stop'],
  ])
  expect(await spent()).toBe(124)
})

it('an end whose write has failed is written when the service stops', async () => {
  const folder = folderForThisTest()
  const stores = openSqliteStores(join(folder, 'conservatory.db'))
  stores.beginServing?.()
  const lock = lockOf(folder)
  await stores.ledger.begin(entry('one'))
  lock.hold()
  await expect(lock.outlast(stores.ledger.finish(ended('one', 100)))).rejects.toMatchObject({ code: 'database_busy' })
  lock.release()
  await stores.close()
  expect(await rowsOf(folder)).toMatchObject([{ id: 'one', state: 'stop', prompt_tokens: 100 }])
})

it.each(disks)(
  'with %s the end of a chat is buffered, counted, and written as soon as the disk has space',
  async (_what, startDisk) => {
    const { upstream, answer } = await waitingUpstream()
    const { service, fill, makeRoom } = await startDisk({
      BOOTSTRAP_KEY: preset,
      OPENAI_BASE_URL: upstream.url,
      LIMITS: 'tokens_per_day=1040',
    })
    const send = (path: string, body?: unknown) =>
      fetch(service.url + path, {
        headers: { authorization: `Bearer ${preset}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      })
    const reply = send('/chat/completions', { model: 'any', max_tokens: 1000, messages })
    await eventually(() => expect(upstream.calls).toHaveLength(1))
    fill()
    const plant = { name: 'x'.repeat(250), tag: 'y'.repeat(250) }
    await eventually(async () => expect((await send('/plants', plant)).status).toBe(507))
    answer()
    const answered = await reply
    expect(answered.status).toBe(200)
    const id = answered.headers.get('x-request-id')
    const record = async () => JSON.parse(await (await send(`/requests/${id}`)).text())
    expect(await record()).toMatchObject({ state: 'running' })
    const ask = (max_tokens: number) => send('/chat/completions', { model: 'understudy', max_tokens, messages })
    expect([(await ask(1020)).status, (await ask(990)).status]).toEqual([429, 507])
    makeRoom()
    const end = { state: 'stop', prompt_tokens: 11, completion_tokens: 7 }
    await eventually(async () => expect(await record()).toMatchObject(end))
    expect((await ask(10)).status).toBe(200)
  },
  60_000,
)

it('a service that is killed while the disk is full counts the reserved tokens at its next start', async () => {
  const disk = disks[0]
  if (!disk) throw new Error('there is a kind of full disk')
  const { upstream, answer } = await waitingUpstream()
  const folder = folderForThisTest()
  const { service, fill } = await disk[1]({
    DATA_DIR: folder,
    BOOTSTRAP_KEY: preset,
    OPENAI_BASE_URL: upstream.url,
    LIMITS: 'tokens_per_day=100000',
  })
  const headers = { authorization: `Bearer ${preset}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ model: 'any', max_tokens: 1000, messages })
  const reply = fetch(`${service.url}/chat/completions`, { method: 'POST', headers, body })
  await eventually(() => expect(upstream.calls).toHaveLength(1))
  fill()
  const plant = JSON.stringify({ name: 'x'.repeat(250), tag: 'y'.repeat(250) })
  await eventually(async () =>
    expect((await fetch(`${service.url}/plants`, { method: 'POST', headers, body: plant })).status).toBe(507),
  )
  answer()
  expect((await reply).status).toBe(200)
  service.process.kill('SIGKILL')
  await service.exited
  await serviceForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: preset })
  const [row] = await rowsOf(folder)
  expect(row).toMatchObject({ state: 'interrupted', prompt_tokens: row?.reserved_tokens })
  expect(row?.reserved_tokens).toBeGreaterThan(1000)
})
