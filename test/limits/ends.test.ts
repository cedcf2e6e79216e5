import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../support/eventually.ts'
import { type LedgerRow, ledgerRows, makeLimitedKey, spentBy } from '../support/limits.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openSql, type TestSql } from '../support/test-sql.ts'
import {
  completion,
  json,
  pieces,
  type Script,
  type ScriptedUpstream,
  startUpstream,
  streamOf,
} from '../support/upstream.ts'

const hanging: Script = () => {}
const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }
const usageEvent = `data: ${JSON.stringify({ id: 'u', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage })}\n\n`
const words = streamOf('one two three')
const withUsage = [...words.slice(0, -1), usageEvent, ...words.slice(-1)]

/** How a request ends, and its record in the ledger. */
interface End {
  readonly script: Script
  readonly stream: boolean
  /** When the client leaves: after the model is called, or after the first part of the reply. */
  readonly leave?: 'asked' | 'begun'
  readonly state: string
  /** The timeouts of this case's own model in milliseconds. Only the timeout that the case exceeds is set. */
  readonly timeouts?: Readonly<Record<string, number>>
  /** Tokens of prompt and completion, and whether they are exact; `some` stands for an estimate. */
  readonly tokens: readonly [prompt: number | 'some', completion: number | 'some', exact: 0 | 1]
  /** The status of the reply, if the case is about it. */
  readonly status?: number
}

const ends: Readonly<Record<string, End>> = {
  'a whole reply': { script: json(completion('hello')), stream: false, state: 'stop', tokens: [11, 7, 1] },
  'a whole reply without usage': {
    script: json(completion('hello, you there', { usage: undefined })),
    stream: false,
    state: 'stop',
    tokens: ['some', 4, 0],
  },
  'a stream with usage': { script: pieces(withUsage), stream: true, state: 'stop', tokens: [11, 7, 1] },
  'a stream without usage': { script: pieces(words), stream: true, state: 'stop', tokens: ['some', 'some', 0] },
  'a whole reply that fails': {
    script: json({ error: { message: 'no' } }, 500),
    stream: false,
    state: 'upstream_error',
    tokens: [0, 0, 0],
  },
  'a stream that fails before it begins': {
    script: json({ error: { message: 'no' } }, 500),
    stream: true,
    state: 'upstream_error',
    tokens: [0, 0, 0],
  },
  'a stream that breaks off': {
    script: pieces(words.slice(0, 3), 'cut'),
    stream: true,
    state: 'upstream_error',
    tokens: ['some', 'some', 0],
  },
  'a whole reply that is refused': {
    script: json({ error: { message: 'no' } }, 400),
    stream: false,
    state: 'refused',
    tokens: [0, 0, 0],
  },
  ...Object.fromEntries(
    ['constructor', 'toString', 'valueOf', '__proto__'].flatMap((code) =>
      [false, true].map((stream) => [
        `a ${stream ? 'stream' : 'whole reply'} that is refused with the code ${code}`,
        {
          script: json({ error: { message: 'no', code } }, 400),
          stream,
          state: 'refused',
          tokens: [0, 0, 0],
          status: 400,
        } satisfies End,
      ]),
    ),
  ),
  'a whole reply that takes too long': {
    script: hanging,
    stream: false,
    timeouts: { total: 100 },
    state: 'timeout',
    tokens: ['some', 0, 0],
  },
  'a stream that never begins': {
    script: hanging,
    stream: true,
    timeouts: { firstToken: 100 },
    state: 'timeout',
    tokens: ['some', 0, 0],
  },
  'a stream that stalls': {
    // The events are sent in one piece: on a slow machine the timeout could pass between two pieces.
    script: pieces([words.slice(0, 3).join('')], 'hang'),
    stream: true,
    timeouts: { idle: 100 },
    state: 'timeout',
    tokens: ['some', 'some', 0],
  },
  'a whole reply whose client leaves': {
    script: hanging,
    stream: false,
    leave: 'asked',
    state: 'client_gone',
    tokens: ['some', 'some', 0],
  },
  'a stream whose client leaves before it begins': {
    script: hanging,
    stream: true,
    leave: 'asked',
    state: 'client_gone',
    tokens: ['some', 'some', 0],
  },
  'a stream whose client leaves': {
    script: pieces(words.slice(0, 3), 'hang'),
    stream: true,
    leave: 'begun',
    state: 'client_gone',
    tokens: ['some', 'some', 0],
  },
}

async function ask(
  service: TestService,
  key: string,
  { stream, leave, model }: Pick<End, 'stream' | 'leave'> & { model: string },
  upstream?: ScriptedUpstream,
) {
  const gone = new AbortController()
  const asking = service.request('/chat/completions', {
    headers: { authorization: `Bearer ${key}` },
    json: { model, stream, messages: [{ role: 'user', content: 'Good morning to you.' }] },
    signal: gone.signal,
  })
  if (leave === 'asked') {
    asking.catch(() => {})
    await upstream?.called(1)
    gone.abort()
  }
  try {
    const response = await asking
    if (leave === 'begun') {
      let text = ''
      for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += piece
        if (text.includes('two')) gone.abort()
      }
    }
    await response.text()
    return response
  } catch {
    return undefined
  }
}

/** The settings of a model that is called once, without retries and without a circuit breaker. */
const settingsOf = ({ url }: ScriptedUpstream) => ({
  adapter: 'openai',
  baseUrl: url,
  retries: 0,
  breaker: { failures: 0 },
})

const models = Object.entries(ends).map(([name, end], index) => ({ name, end, model: `model-${index}` }))

describe.for([
  ['no limit of a day', {}],
  ['a limit of a day', { tokens_per_day: 10_000 }],
] as const)('a chat of a key with %s', ([, limits]) => {
  const upstreams = new Map<string, ScriptedUpstream>()
  let service: TestService
  let sql: TestSql

  beforeAll(async () => {
    const settings: Record<string, unknown> = { understudy: { adapter: 'understudy' } }
    for (const { end, model } of models) {
      const upstream = await startUpstream(end.script)
      upstreams.set(model, upstream)
      settings[model] = { ...settingsOf(upstream), timeouts: end.timeouts ?? {} }
    }
    const upstream = await startUpstream(json(completion('hello')))
    upstreams.set('good', upstream)
    settings['good'] = settingsOf(upstream)
    service = await startTestService({}, settings)
    sql = await openSql(service.dataDirectory)
  })

  afterAll(async () => {
    await sql.close()
    await service.close()
    for (const upstream of upstreams.values()) await upstream.close()
  })

  /** Waits until the ledger has `count` records of a key, and no record is running. @returns the records */
  async function settled(key: string, count: number): Promise<readonly LedgerRow[]> {
    let rows: readonly LedgerRow[] = []
    await until(async () => {
      rows = (await ledgerRows(sql)).filter((row) => row.key_prefix === key.slice(0, 11))
      return rows.length === count && rows.every(({ state }) => state !== 'running')
    })
    return rows
  }

  it.concurrent.for(models)(
    '$name is settled once, and is not in flight after that',
    async ({ end, model }, { expect }) => {
      const key = await makeLimitedKey(service.dataDirectory, { chat_at_once: 1, ...limits })
      const response = await ask(service, key, { ...end, model }, upstreams.get(model))
      if (end.status !== undefined) expect(response?.status).toBe(end.status)
      const [row] = await settled(key, 1)
      const [prompt, reply, exact] = end.tokens
      expect(row).toMatchObject({
        state: end.state,
        tokens_exact: exact,
        prompt_tokens: prompt === 'some' ? expect.any(Number) : prompt,
        completion_tokens: reply === 'some' ? expect.any(Number) : reply,
      })
      if (prompt === 'some') expect(row?.prompt_tokens).toBeGreaterThan(4)
      if (reply === 'some') expect(row?.completion_tokens).toBeGreaterThan(0)
      const spent = (row?.prompt_tokens ?? 0) + (row?.completion_tokens ?? 0)
      expect(await spentBy(sql, `key:${row?.key_id}`)).toStrictEqual(spent > 0 ? [spent] : [])

      expect((await ask(service, key, { stream: false, model: 'good' }))?.status).toBe(200)
      await settled(key, 2)
      expect(await spentBy(sql, `key:${row?.key_id}`)).toStrictEqual([spent + 18])
    },
  )

  it('the account has spent the sum of its keys', async () => {
    const keys = (await spentBy(sql, 'key:')).reduce((sum, tokens) => sum + tokens, 0)
    expect(await spentBy(sql, 'account:')).toStrictEqual([keys])
  })
})
