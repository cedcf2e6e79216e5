import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Held } from '../support/held-probe.ts'
import { projectFolder, type SpawnedService, spawnService } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'

/*
 * What one caller can do to the others: each row is one attack over HTTP on a service of its own, and what it costs the
 * main thread (the longest stretch for which it holds the event loop, in its own CPU time) and the process's memory.
 * With BEFORE=<folder of another checkout> each row is run on that too, for the table at the end.
 */

/** A service under attack. */
interface House extends SpawnedService {
  /** Sends a request with the first key. @returns the status and what was answered, shortened */
  ask(path: string, body: string | object): Promise<string>
}

interface Row {
  readonly name: string
  readonly attack: (house: House) => Promise<string>
  /** What the service has done before, so that nothing is loaded or compiled under attack; with the understudy without it. */
  readonly warm?: (house: House) => Promise<unknown>
  /** Milliseconds that the main thread may hold the event loop. */
  readonly most?: number
}

const mostHeld = 50
const mostMemory = 256 * 1024 ** 2

const hi = [{ role: 'user', content: 'Hi' }]
const schemaRequest = (schema: object, more: object = {}) => ({
  model: 'understudy',
  messages: hi,
  response_format: { type: 'json_schema', json_schema: { name: 'a', schema } },
  ...more,
})
const schemaRow = (name: string, schema: object, more: object = {}): Row => ({
  name,
  warm: (house) => house.ask('/chat/completions', schemaRequest({ type: 'object' })),
  attack: (house) => house.ask('/chat/completions', schemaRequest(schema, more)),
})

/** Letters that make no words, the same each time: what costs most to count in tokens. */
function randomLetters(count: number): string {
  let state = 1
  return Array.from({ length: count }, () => {
    state = (state * 48271) % 2147483647
    return 'abcdefghijklmnopqrstuvwxyz'[state % 26]
  }).join('')
}

const heavy = 'x|([a-z]{1000}){9}|([a-z]{1000}){9}|([a-z]{1000}){9}|([a-z]{1000}){9}|([a-z]{1000}){9}'
const schemas: readonly Row[] = [
  schemaRow('100 items of a heavy pattern', { type: 'array', minItems: 100, items: { pattern: heavy } }),
  schemaRow(
    '100 unique items of a heavy pattern, 8 choices',
    { type: 'array', minItems: 100, uniqueItems: true, items: { pattern: '([a-z]{1000}){9}' } },
    { n: 8 },
  ),
  schemaRow('3,000 properties with heavy patterns', {
    required: Array.from({ length: 3000 }, (_, index) => `p${index}`),
    additionalProperties: { pattern: heavy.slice(2) },
  }),
  schemaRow('allOf of 100,000 branches', {
    allOf: Array.from({ length: 100_000 }, () => ({ type: 'object' })),
  }),
  // What is left of it when the model does nothing.
  schemaRow(
    'the same, only read',
    { allOf: Array.from({ length: 100_000 }, () => ({ type: 'object' })) },
    { model: 'none' },
  ),
  schemaRow('9,000 items of anyOf with 9,000 branches', {
    type: 'array',
    minItems: 9000,
    items: { anyOf: Array.from({ length: 9000 }, () => ({ type: 'object' })) },
  }),
  schemaRow('9,000 items of an enum with 9,000 values', {
    type: 'array',
    minItems: 9000,
    items: { enum: Array.from({ length: 9000 }, (_, index) => `value ${index}`) },
  }),
  schemaRow('two enums of 20,000 values joined', {
    enum: Array.from({ length: 20_000 }, (_, index) => index),
    allOf: [{ enum: Array.from({ length: 20_000 }, (_, index) => -1 - index) }],
  }),
  schemaRow('9,000 texts of 100,000 characters', {
    type: 'array',
    minItems: 9000,
    items: { type: 'string', minLength: 100_000 },
  }),
  // Just within the budget: what it costs to count and send.
  schemaRow(
    '10 long texts of a pattern, streamed',
    { type: 'array', minItems: 4, items: { pattern: '([a-z]{1000}){9}' } },
    {
      stream: true,
    },
  ),
  schemaRow('90,000 random letters, 8 choices', { const: randomLetters(90_000) }, { n: 8 }),
  {
    ...schemaRow('a heavy pattern in a tool call', {}),
    attack: (house) =>
      house.ask('/chat/completions', {
        model: 'understudy',
        messages: hi,
        tool_choice: 'required',
        tools: [
          {
            type: 'function',
            function: {
              name: 'a',
              parameters: {
                required: ['b'],
                properties: { b: { type: 'array', minItems: 100, items: { pattern: heavy } } },
              },
            },
          },
        ],
      }),
  },
]

/** Asks without a key, many times at once, and reads nothing of the answers until the service is at rest. */
const unread = (name: string, path: string, headers = ''): Row => ({
  name,
  warm: async ({ url }) => (await fetch(url + path)).arrayBuffer(),
  attack: async ({ url }) => {
    const { hostname, port } = new URL(url)
    const sockets = Array.from({ length: 200 }, (): Socket => {
      const socket = connect({ host: hostname, port: Number(port) }).on('error', () => {})
      socket.pause()
      socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`)
      return socket
    })
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    // The service answers what others ask when it has seen to these.
    for (let calm = 0, round = 0; calm < 5 && round < 200; round++) {
      const start = performance.now()
      await (await fetch(`${url}/livez`)).text()
      calm = performance.now() - start < 100 ? calm + 1 : 0
      await sleep(300)
    }
    const heads = await Promise.all(
      sockets.map(async (socket) => {
        const piece = await Promise.race([
          new Promise<Buffer>((resolve) => socket.once('data', resolve).resume()),
          sleep(2000),
        ])
        socket.pause()
        return /^HTTP\/1.1 (\d+)/.exec(String(piece))?.[1] ?? 'nothing'
      }),
    )
    return [...new Set(heads)].map((head) => `${heads.filter((each) => each === head).length}x ${head}`).join(', ')
  },
})
const documents: readonly Row[] = [
  unread('200 sockets that do not read /docs/swagger-ui.js', '/docs/swagger-ui.js'),
  unread('the same, compressed', '/docs/swagger-ui.js', 'Accept-Encoding: gzip, br\r\n'),
  unread('200 sockets that do not read /openapi.json', '/openapi.json'),
]

const card = (fields: object) => ({ spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Moss', ...fields } })
const cardRow = (name: string, fields: object): Row => ({
  name,
  warm: async (house) => {
    await house.ask('/characters', card({ name: 'Fern', description: '{{time}} {{pick:a,b}}' }))
    await house.ask('/chat/prompt', { model: 'understudy', character: 'Fern', messages: hi })
    return house.ask('/chat/completions', { model: 'understudy', character: 'Fern', messages: hi })
  },
  attack: async (house) => {
    const uploaded = await house.ask('/characters', card(fields))
    const request = { model: 'understudy', character: 'Moss', messages: hi }
    const answered = await house.ask('/chat/prompt', request)
    return `${uploaded}; ${answered}`
  },
})
const cards: readonly Row[] = [
  cardRow('20,000 {{pick}} in a card', { description: '{{pick:a,b}} '.repeat(20_000) }),
  cardRow('2,900 {{pick}}, about the most there may be', { description: '{{pick:a,b}} '.repeat(2900) }),
  cardRow('60,000 {{time}} in a card', { description: '{{time}} '.repeat(60_000) }),
  cardRow('20,000 {{description}} of a description that is a comment', {
    description: `{{// ${'x'.repeat(100_000)}}}`,
    personality: '{{description}}'.repeat(20_000),
  }),
]

/** Conversations for an adapter that translates; all of them begin with the user. */
const conversation = (count: number, ...roles: readonly string[]) => ({
  model: 'translated',
  messages: Array.from({ length: count }, (_, index) => ({
    role: roles[index % roles.length],
    content: `Line ${index}`,
  })),
})
const adapterRow = (name: string, count: number, ...roles: readonly string[]): Row => ({
  name,
  warm: (house) => house.ask('/chat/completions', conversation(3, ...roles)),
  attack: (house) => house.ask('/chat/completions', conversation(count, ...roles)),
  most: 150,
})
const adapters: readonly Row[] = [
  adapterRow('120,000 messages, user and assistant', 120_000, 'user', 'assistant'),
  adapterRow('120,000 messages, user and system', 120_000, 'user', 'system'),
  adapterRow('50,000 leading system messages', 50_000, 'system'),
  {
    ...adapterRow('120,000 messages, only read', 120_000, 'user', 'assistant'),
    attack: (house) => house.ask('/chat/completions', { ...conversation(120_000, 'user', 'assistant'), model: 'none' }),
  },
]

interface Cost {
  readonly held: number
  readonly memory: number
  readonly seconds: number
  readonly answered: string
}

/** Runs one row on the service of a checkout. */
async function costOf({ attack, warm }: Row, folder: string): Promise<Cost> {
  const upstream = createServer((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(answerOfUpstream))
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => upstream.once('listening', resolve))
  onTestFinished(() => void upstream.close())
  const address = upstream.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const data = temporaryFolder()
  onTestFinished(data.remove)
  const models = {
    understudy: { adapter: 'understudy' },
    translated: {
      adapter: '@ai-sdk/anthropic',
      apiKey: 'canary-key-1234567890',
      model: 'claude-sonnet-4-5',
      baseUrl: `http://127.0.0.1:${port}`,
      retries: 0,
    },
  }
  writeFileSync(join(data.path, 'models.json'), JSON.stringify({ models }))
  const probe = pathToFileURL(join(projectFolder, 'test/support/held-probe.ts')).href
  const service = await spawnService(process.execPath, ['--import', probe, 'src/main.ts'], {
    folder,
    environment: { DATA_DIR: data.path },
  })
  const house: House = {
    ...service,
    ask: async (path, body) => {
      const response = await fetch(service.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(280_000),
      })
      const text = await response.text()
      const code = /"code":"(\w+)"/.exec(text)?.[1]
      return `${response.status}${code === undefined ? '' : ` ${code}`}`
    },
  }
  await warm?.(house)
  await warm?.(house)
  await sleep(1000)
  await held(service)
  await sleep(200)
  const idle = await held(service)
  const start = performance.now()
  const answered = await attack(house)
  const seconds = (performance.now() - start) / 1000
  const { longest, memory } = await held(service)
  return { held: longest, memory: memory - idle.memory, seconds, answered }
}

/** What a provider's service says. */
const answerOfUpstream = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  model: 'claude-sonnet-4-5',
  content: [{ type: 'text', text: 'Hello.' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
}

/** What the probe in a service has measured since it was asked last. */
async function held(service: SpawnedService): Promise<Held> {
  const told = () => service.stderr().match(/^held .*$/gm) ?? []
  const before = told().length
  service.process.kill('SIGWINCH')
  while (told().length === before) await sleep(5)
  return JSON.parse(told().at(-1)?.slice('held '.length) ?? '')
}

const before = process.env['BEFORE']
const results: Record<string, string | number>[] = []

afterAll(() => {
  console.table(results)
})

function megabytes(bytes: number): number {
  return Math.round(bytes / 1024 ** 2)
}

describe.each([
  ['schemas', schemas],
  ['documents', documents],
  ['cards', cards],
  ['adapters', adapters],
] as const)('%s', (_group, rows) => {
  it.each(rows.map((row) => [row.name, row] as const))('%s', async (name, row) => {
    const old = before === undefined ? undefined : await costOf(row, before)
    const now = await costOf(row, projectFolder)
    results.push({
      attack: name,
      ...(old && {
        'held ms, before': Math.round(old.held),
        'MB, before': megabytes(old.memory),
        'answered, before': old.answered,
      }),
      'held ms': Math.round(now.held),
      MB: megabytes(now.memory),
      s: Number(now.seconds.toFixed(1)),
      answered: now.answered,
    })
    expect.soft(now.held).toBeLessThan(row.most ?? mostHeld)
    expect.soft(now.memory).toBeLessThan(mostMemory)
  })
})
