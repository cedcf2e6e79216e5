import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { conservatory, serveForThisTest } from '../support/command.ts'
import { projectFolder } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import {
  chunkText,
  completion,
  json,
  pieces,
  type Script,
  sse,
  startUpstream,
  upstreamForThisTest,
} from '../support/upstream.ts'

const canary = 'sk-canary-0123456789abcdefghijklmnop'
const messages = [{ role: 'user', content: 'A-PRIVATE-TEXT' }]
const quote = `No: key ${canary}, at https://user:canary@10.1.2.3/v1?key=canary <b>now</b>.`

/** The upstream's behaviour by the model's id. */
const scripts: Readonly<Record<string, Script>> = {
  unauthorised: json({ error: { message: quote } }, 401),
  unknown: json({ error: { message: 'The model does not exist.', code: 'model_not_found' } }, 404),
  limited: json({ error: { message: 'Rate limit reached for TPM.' } }, 429),
  broken: json({ error: { message: 'CUDA out of memory.' } }, 500),
  page: (response) => void response.writeHead(502, { 'content-type': 'text/html' }).end('<html>nginx</html>'),
  cut: pieces([sse(chunkText({ content: 'One' }))], 'cut'),
  good: json(completion('Hello.')),
}

/** Models that fail in every way, and the log's message for each. */
async function failingModels() {
  const upstream = await upstreamForThisTest((response, call) => scripts[String(call.body['model'])]?.(response, call))
  const gone = await startUpstream()
  await gone.close()
  const fixture = (name: string) => readFileSync(join(projectFolder, 'test/fixtures/tls', name))
  const secure = createServer({ key: fixture('server.key'), cert: fixture('server.pem') })
  await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void secure.close())
  const { port } = secure.address() as AddressInfo

  const openAi = {
    adapter: 'openai',
    apiKey: '$' + '{CANARY}',
    baseUrl: upstream.url,
    retries: 0,
    breaker: { failures: 0 },
  }
  const claude = { ...openAi, adapter: '@ai-sdk/anthropic', model: 'unauthorised' }
  const models = {
    ...Object.fromEntries(Object.keys(scripts).map((name) => [name, { ...openAi, model: name }])),
    gone: { ...openAi, baseUrl: gone.url },
    nowhere: { ...openAi, baseUrl: 'http://nowhere.invalid:8080/v1' },
    secure: { ...openAi, baseUrl: `https://localhost:${port}/v1` },
    claude,
    'claude-gone': { ...claude, baseUrl: gone.url },
    list: { fallback: ['gone', 'unauthorised', 'broken', 'good'] },
    hopeless: { fallback: ['claude', 'gone'] },
  }
  const host = new URL(upstream.url).host
  const goneHost = new URL(gone.url).host
  const told: Readonly<Record<string, { host: string; code?: RegExp; status?: number; said?: string }>> = {
    unauthorised: { host, status: 401, said: 'No: key …, at … <b>now</b>.' },
    unknown: { host, status: 404, said: 'The model does not exist.' },
    limited: { host, status: 429, said: 'Rate limit reached for TPM.' },
    broken: { host, status: 500, said: 'CUDA out of memory.' },
    page: { host, status: 502 },
    gone: { host: goneHost, code: /^ECONNREFUSED$/ },
    // Without a network the name cannot be resolved.
    nowhere: { host: 'nowhere.invalid:8080', code: /^(?:ENOTFOUND|EAI_AGAIN)$/ },
    secure: { host: `localhost:${port}`, code: /^(?:UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN)$/ },
    claude: { host, status: 401, said: 'No: key …, at … <b>now</b>.' },
    'claude-gone': { host: goneHost, code: /^ECONNREFUSED$/ },
  }
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
  return { told, environment: { DATA_DIR: folder.path, CANARY: canary }, host, goneHost }
}

test('the log names the host, and the code or the status, of each model that failed, and not the upstream’s sentence', async () => {
  const { told, environment, host } = await failingModels()
  const service = await serveForThisTest(environment)
  const replies: string[] = []
  const ask = async (model: string, stream = false, sent = messages) => {
    const response = await fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: service.key, 'content-type': 'application/json', 'x-asked': model },
      body: JSON.stringify({ model, messages: sent, stream }),
    })
    replies.push(await response.text())
    return [response.status, response.headers.get('x-request-id')] as const
  }
  const ids = new Map<string, string | null>()
  for (const model of Object.keys(told)) ids.set(model, (await ask(model))[1])
  const [listStatus, list] = await ask('list')
  const [, hopeless] = await ask('hopeless')
  const [, cut] = await ask('cut', true)
  const long = [{ role: 'user', content: 'A-PRIVATE-TEXT '.repeat(1000) }]
  const [, truncated] = await ask('good', false, long)
  await service.close()

  const lines = service
    .stdout()
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line))
  const failures = (id: unknown) =>
    lines.filter(({ request_id, err }) => request_id === id && err).map(({ err }) => Object(err))
  for (const [model, { code, said, ...rest }] of Object.entries(told)) {
    const expected = { ...rest, model, ...(code ? { code: expect.stringMatching(code) } : {}) }
    expect(failures(ids.get(model))).toMatchObject([expected])
    if (said !== undefined) expect(service.stdout()).not.toContain(said)
  }
  expect(listStatus).toBe(200)
  expect(failures(list).map((reason) => [reason.model, reason.code ?? reason.status])).toEqual([
    ['gone', 'ECONNREFUSED'],
    ['unauthorised', 401],
    ['broken', 500],
  ])
  expect(failures(hopeless).map((reason) => [reason.model, reason.code ?? reason.status])).toEqual([
    ['claude', 401],
    ['gone', 'ECONNREFUSED'],
  ])
  expect(failures(cut)).toMatchObject([{ model: 'cut', host }])
  expect(failures(ids.get('unknown'))).toMatchObject([{ code: 'model_not_found' }])
  // The prompt tokens that the upstream has read, and the tokens of the whole prompt.
  expect(lines.find(({ request_id }) => request_id === truncated)).toMatchObject({
    upstream_truncated: expect.stringMatching(/^11\/\d{4}$/),
  })
  expect(lines.filter((line) => 'upstream_truncated' in line)).toHaveLength(1)
  for (const text of [service.stdout(), service.stderr()]) expect(text).not.toMatch(/canary|10\.1\.2\.3|PRIVATE|<b>/)
  // Callers do not learn the hosts of the models.
  for (const reply of replies) expect(reply).not.toMatch(/127\.0\.0\.1|nowhere|localhost|ECONN|canary/)
}, 60_000)

test('models check names the host, the code or the status, and the sentence without keys and addresses of each model that fails', async () => {
  const { told, environment } = await failingModels()
  const { code, stdout, stderr } = await conservatory(['models', 'check', '--json'], environment)
  expect([code, stderr]).toEqual([1, 'Not every model answers.\n'])
  const rows: readonly { readonly model: string; readonly message: string }[] = JSON.parse(stdout)
  for (const [model, { host, code, status, said }] of Object.entries(told)) {
    const message = rows.find((row) => row.model === model)?.message ?? ''
    expect(message).toContain(status === undefined ? `${host}: ` : `${host} answered ${status}`)
    if (code) expect(message).toMatch(new RegExp(`: ${code.source.slice(1, -1)}, [a-z][^.]+\\.$`))
    if (said) expect(message).toContain(`: ${said}`)
  }
  expect(rows.find(({ model }) => model === 'list')).toMatchObject({ state: 'ok', message: null })
  expect(stdout).not.toMatch(/canary|10\.1\.2\.3/)
}, 60_000)

/** A word of the conversation that no search for quotes would find: it is short, Latin and without a digit. */
const word = 'wyzzy'
const said = `No ${word} here`
const quoting = { message: said, code: word, type: word, param: word, status: word.toUpperCase() }

/** Errors of an upstream that quote the conversation wherever they can. */
const quotes: readonly (readonly [what: string, script: Script])[] = [
  ...[400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 503].map(
    (status) => [`a ${status}`, json({ type: 'error', error: quoting }, status, { 'x-said': said })] as const,
  ),
  ['a 400 in plain text', (to) => void to.writeHead(400, said).end(said)],
  ['a 400 of another shape', json({ error: said, detail: said }, 400)],
  ['an error in a 200', json({ error: quoting })],
  ['an error in a 200 with a status', json({ error: { ...quoting, code: 400 } })],
  ['an error in a choice', json(completion('', { choices: [{ index: 0, error: quoting, finish_reason: 'error' }] }))],
  ['an unknown answer', json({ said })],
  ['an unknown finish reason', json(completion('Yes.', { choices: [choiceThatEnds(word)] }))],
  [
    'an error in a stream',
    pieces([sse(chunkText({ content: 'One' }), JSON.stringify({ type: 'error', error: quoting }))]),
  ],
  ['an error in place of a stream', pieces([sse(JSON.stringify({ error: quoting }))])],
  ['an event that is no JSON', pieces([sse(chunkText({ content: 'One' }), said)])],
  ['no HTTP', (to) => void to.socket?.end(`${said}\r\n\r\n`)],
  ['a header that is no header', (to) => void to.socket?.end(`HTTP/1.1 200 ${said}\r\n${said}\r\n\r\n`)],
  ['a coding that is none', json({ said }, 200, { 'content-encoding': 'gzip' })],
]

function choiceThatEnds(finish_reason: string) {
  return { index: 0, message: { role: 'assistant', content: 'Yes.', refusal: null }, logprobs: null, finish_reason }
}

test('no text of an upstream’s error reaches the log, the metrics or the traces, and the caller of a 400 gets the sentence', async () => {
  const upstream = await upstreamForThisTest()
  const receiver = await upstreamForThisTest(json({}))
  const openAi = { adapter: 'openai', baseUrl: upstream.url, retries: 0, breaker: { failures: 0 } }
  const models = {
    plain: openAi,
    claude: { ...openAi, adapter: '@ai-sdk/anthropic', model: 'm', apiKey: 'a-key-of-tests' },
    gemini: { ...openAi, adapter: '@ai-sdk/google', model: 'm', apiKey: 'a-key-of-tests' },
    list: { fallback: ['plain', 'claude'] },
  }
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
  const service = await serveForThisTest({
    DATA_DIR: folder.path,
    LOG_LEVEL: 'trace',
    OTEL_EXPORTER_OTLP_ENDPOINT: new URL(receiver.url).origin,
  })
  const headers = { authorization: service.key, 'content-type': 'application/json' }
  const ask = async (path: string, body: object) =>
    (await fetch(service.url + path, { method: 'POST', headers, body: JSON.stringify(body) })).text()
  for (const [what, script] of quotes) {
    upstream.answer(script)
    for (const model of Object.keys(models)) {
      for (const stream of [false, true]) {
        const replies = await Promise.all([
          ask('/chat/completions', { model, stream, messages: [{ role: 'user', content: `My ${word} sleeps.` }] }),
          ask('/responses', { model, stream, input: `My ${word} sleeps.` }),
        ])
        if (what === 'a 400' && model === 'plain')
          for (const reply of replies) expect(reply).toMatch(new RegExp(`"${word}".*${said}|${said}.*"${word}"`))
      }
    }
  }
  const metrics = await (await fetch(`${service.url}/metrics`, { headers })).text()
  await service.close()
  expect(receiver.calls.length).toBeGreaterThan(0)
  const written = [service.stdout(), service.stderr(), metrics, JSON.stringify(receiver.calls.map(({ body }) => body))]
  const lines = written.flatMap((text) => text.split('\n'))
  expect(lines.filter((line) => line.toLowerCase().includes(word))).toEqual([])
}, 120_000)
