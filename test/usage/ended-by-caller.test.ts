import { type AddressInfo, createServer } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { TestClock } from '../support/clock.ts'
import { until } from '../support/eventually.ts'
import { type LedgerRow, ledgerRows, spentBy } from '../support/limits.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openSql, type TestSql } from '../support/test-sql.ts'
import { json, pieces, type Script, type ScriptedUpstream, startUpstream, streamOf } from '../support/upstream.ts'

const hanging: Script = () => {}
const halfOfWhole: Script = (response) => void response.writeHead(200).write('{"id":"chatcmpl-1","choices":[')
const halfOfStream = pieces([streamOf('one two three').slice(0, 3).join('')], 'hang')
const refusing = json({ error: { message: 'no' } }, 500, { 'retry-after': '7' })

const replyTokens = 500
const clock = new TestClock()
let upstream: ScriptedUpstream
let service: TestService
let sql: TestSql
/** An HTTPS server that never answers the first message of TLS, so no connection to it is ever made. */
const silent = createServer()

beforeAll(async () => {
  upstream = await startUpstream()
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const model = { adapter: 'openai', baseUrl: upstream.url, retries: 0, breaker: { failures: 0 } }
  const patient = { firstToken: 9_000_000, idle: 9_000_000, total: 9_000_000 }
  const claude = { ...model, adapter: '@ai-sdk/anthropic', model: 'm', apiKey: 'a-key-of-tests' }
  const port = (silent.address() as AddressInfo).port
  const models = {
    patient: { ...model, timeouts: patient },
    claude: { ...claude, timeouts: patient },
    retried: { ...model, retries: 1 },
    impatient: { ...model, timeouts: { firstToken: 90_000, idle: 90_000, total: 90_000 } },
    unreached: { ...model, baseUrl: `https://127.0.0.1:${port}/v1` },
  }
  service = await startTestService({ LIMITS: 'tokens_per_day=1000000' }, models, { clock })
  sql = await openSql(service.dataDirectory)
})

afterAll(async () => {
  await sql?.close()
  await service?.close()
  await upstream?.close()
  silent.close()
})

interface Chat {
  readonly route: '/chat/completions' | '/responses'
  readonly model: string
  readonly stream: boolean
}

/** Sends a request that may have 500 tokens of reply. */
function ask({ route, model, stream }: Chat) {
  const leaving = new AbortController()
  const asked =
    route === '/responses'
      ? { input: 'Good morning to you.', max_output_tokens: replyTokens }
      : { messages: [{ role: 'user', content: 'Good morning to you.' }], max_tokens: replyTokens }
  upstream.calls.length = 0
  const reply = service.request(route, { json: { model, stream, ...asked }, signal: leaving.signal })
  reply.catch(() => {})
  return { reply, leave: () => leaving.abort() }
}

/** Waits until the ledger has the end of the next request. */
async function nextEnd(): Promise<LedgerRow> {
  let row: LedgerRow | undefined
  await until(async () => {
    row = (await ledgerRows(sql)).find(({ id }) => !known.has(id))
    return row !== undefined && row.state !== 'running'
  })
  if (!row) throw new Error('the ledger has no further request')
  known.add(row.id)
  return row
}
const known = new Set<string>()

const routes = ['/chat/completions', '/responses'] as const
const forms = [
  [false, false, hanging],
  [false, true, halfOfWhole],
  [true, false, hanging],
  [true, true, halfOfStream],
] as const
const leavings = routes.flatMap((route) =>
  forms.flatMap(([stream, hasBegun, script]) =>
    [0, 2, 9000].map((seconds) => ({
      route,
      form: `${stream ? 'stream' : 'whole reply'} ${hasBegun ? 'after' : 'before'} its beginning`,
      stream,
      hasBegun,
      script,
      seconds,
    })),
  ),
)

test.each(leavings)(
  'a client that leaves $route, $form, after $seconds s is charged 60 tokens for each second, up to the reservation',
  async ({ route, stream, hasBegun, script, seconds }) => {
    upstream.answer(script)
    const { reply, leave } = ask({ route, model: 'patient', stream })
    await upstream.called(1)
    if (stream && hasBegun) await readUntil(await reply, 'two')
    clock.advance(seconds * 999)
    leave()
    const row = await nextEnd()
    expect(row).toMatchObject({ state: 'client_gone', tokens_exact: 0 })
    expect(row.prompt_tokens).toBeGreaterThan(4)
    expect(row.reserved_tokens).toBe(row.prompt_tokens + replyTokens)
    const least = Math.min(replyTokens, Math.ceil(seconds * 0.999 * 60))
    if (!(stream && hasBegun)) expect(row.completion_tokens).toBe(least)
    else if (least > 0) expect(row.completion_tokens).toBe(least)
    else expect(row.completion_tokens).toBeGreaterThan(0)
  },
)

test('a provider package’s request is charged by time too', async () => {
  upstream.answer(hanging)
  const { leave } = ask({ route: '/chat/completions', model: 'claude', stream: true })
  await upstream.called(1)
  clock.advance(3000)
  leave()
  expect(await nextEnd()).toMatchObject({ state: 'client_gone', completion_tokens: 180, tokens_exact: 0 })
})

test.each([false, true])(
  'a timeout of the operator charges the prompt and what was seen (stream: %s)',
  async (stream) => {
    upstream.answer(stream ? halfOfStream : hanging)
    const { reply } = ask({ route: '/chat/completions', model: 'impatient', stream })
    await upstream.called(1)
    if (stream) await readUntil(await reply, 'two')
    clock.advance(90_000)
    const row = await nextEnd()
    expect(row.state).toBe('timeout')
    expect(row.prompt_tokens).toBeGreaterThan(4)
    expect(row.completion_tokens).toBeLessThan(10)
  },
)

test('a client that leaves after the upstream has refused the request is charged the prompt alone', async () => {
  upstream.answer(refusing)
  const { leave } = ask({ route: '/chat/completions', model: 'retried', stream: false })
  await clock.untilWaiting(7000)
  clock.advance(6000)
  leave()
  expect(await nextEnd()).toMatchObject({ state: 'client_gone', completion_tokens: 0 })
  expect(upstream.calls).toHaveLength(1)
})

test('a client that leaves before the upstream is connected is charged the prompt alone', async () => {
  const connected = new Promise<void>((resolve) => {
    silent.once('connection', (socket) => {
      onTestFinished(() => void socket.destroy())
      resolve()
    })
  })
  const { leave } = ask({ route: '/chat/completions', model: 'unreached', stream: false })
  await connected
  clock.advance(60_000)
  leave()
  expect(await nextEnd()).toMatchObject({ state: 'client_gone', completion_tokens: 0 })
})

test('the account has spent what its requests were charged', async () => {
  const rows = await ledgerRows(sql)
  expect(rows.length).toBeGreaterThan(leavings.length)
  const charged = rows.reduce((sum, row) => sum + row.prompt_tokens + row.completion_tokens, 0)
  expect(await spentBy(sql, 'account:')).toEqual([charged])
})

async function readUntil(response: Response, word: string): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes(word)) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done) throw new Error(`the reply has no ${word}: ${text}`)
    text += value
  }
}
