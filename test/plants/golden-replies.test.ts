import { request } from 'node:http'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { projectFolder, spawnService } from '../support/process.ts'

/*
 * Replies of the plants interface, the same to the byte as those of an earlier version, with all headers in their order. The file
 * of replies is from that version:
 *
 *   CHECKOUT=../old npx vitest run test/plants/golden-replies.test.ts -u
 *
 * The service of another checkout needs its node_modules.
 */

const replies = '../fixtures/plants/replies.txt'
const folder = resolve(process.env['CHECKOUT'] ?? projectFolder)

/** One request. Most have a good key and a JSON body. */
interface Asked {
  readonly method: string
  readonly path: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

const post = (body: string, headers = {}, path = '/plants'): Asked => ({ method: 'POST', path, body, headers })
const get = (path: string, headers = {}): Asked => ({ method: 'GET', path, headers })

/** The kinds of plants that the store has after these requests: with and without tag and id, with characters of every length. */
const added = [
  '{"name":"Monstera"}',
  '{"name":"Monstera","tag":"aroid"}',
  '{"name":"  Trimmed  ","tag":" aroid "}',
  '{"name":"Chosen","id":100}',
  '{"name":"After the chosen"}',
  '{"name":"Below zero","id":-5,"tag":"odd"}',
  '{"tag":"fern","name":"Order of fields"}',
  '{"name":"\\u0041\\ud83c\\udf35","tag":"🌵"}',
  '{"name":"Quotes \\" and \\\\ and /"}',
  `{"name":"${'n'.repeat(255)}","tag":"${'t'.repeat(255)}"}`,
  '{"name":"Extra","colour":"green","size":{"cm":4}}',
  '{"name":"Straße İstanbul ﬁg"}',
  '{"name":"Twice","name":"Last wins?"}',
  '{"name":"=1+1","tag":"@home"}',
]

/** Bodies that are refused. */
const refused = [
  '',
  '{',
  '[]',
  'null',
  '"Monstera"',
  '{}',
  '{"name":""}',
  '{"name":"   "}',
  '{"name":null}',
  '{"name":7}',
  '{"name":"A","tag":null}',
  '{"name":"A","tag":""}',
  '{"name":"A","tag":["aroid"]}',
  '{"name":"A","id":"7"}',
  '{"name":"A","id":1.5}',
  '{"name":"A","id":1e400}',
  '{"name":"A","id":9007199254740993}',
  '{"name":"A","id":100}',
  '{"name":"tab\\tin it"}',
  '{"name":"\\ud800"}',
  `{"name":"${'n'.repeat(256)}"}`,
  '{"name":"A"} trailing',
  '{"__proto__":{"name":"A"}}',
]

/** Query strings of lists. */
const lists = [
  '',
  '?limit=1',
  '?limit=3',
  '?limit=1000',
  '?limit=0',
  '?limit=-1',
  '?limit=two',
  '?limit=2&limit=3',
  '?limit=2147483648',
  '?tag=aroid',
  '?tag=%20aroid%20',
  '?tag=none',
  '?tag=',
  '?tag=a&tag=b',
  '?tag=%F0%9F%8C%B5',
  '?include=id',
  '?include=id&tag=aroid&limit=1',
  '?after=nonsense',
  '?after=',
  '?unknown=1&limit=2',
  '?limit=1&include=id',
]

const ids = [
  '1',
  '2',
  '100',
  '-5',
  '999',
  '0',
  'one',
  '1.5',
  '9007199254740992',
  '01',
  '%31',
  '1/',
  '1?include=id',
  '1?x=1',
]

const secret = 'a-key-for-the-recorded-replies'
const authorizations = [
  '',
  'Bearer',
  'Bearer wrong',
  `Basic ${secret}`,
  secret,
  `bearer ${secret}`,
  `Bearer  ${secret}`,
]

const asked: readonly Asked[] = [
  ...lists.map((query) => get(`/plants${query}`)),
  ...added.map((body) => post(body)),
  ...added.slice(0, 7).map((body) => post(body.replace(/"id":-?\d+/, '"id":7000'), {}, '/plants?include=id')),
  ...refused.map((body) => post(body)),
  ...[
    'text/plain',
    'application/json; charset=utf-16',
    'application/xml',
    'application/vnd.plant+json',
    'text/json',
  ].map((type) => post('{"name":"Typed"}', { 'content-type': type })),
  ...['?include=id', '?dry=1'].map((query) => post('{"name":"By query"}', {}, `/plants${query}`)),
  ...['first', 'first', '', ' ', 'k'.repeat(255), 'k'.repeat(256), 'ü'].map((key) =>
    post('{"name":"Once"}', { 'idempotency-key': encodeURI(key) }),
  ),
  post('{"name":"Another"}', { 'idempotency-key': 'first' }),
  ...lists.map((query) => get(`/plants${query}`)),
  ...lists.map((query) => ({ method: 'HEAD', path: `/plants${query}` })),
  ...['*', '"x"', 'W/"x"', ''].map((tag) => get('/plants', { 'if-none-match': tag })),
  ...ids.map((id) => get(`/plants/${id}`)),
  ...ids.slice(0, 6).map((id) => ({ method: 'HEAD', path: `/plants/${id}` })),
  ...authorizations.flatMap((authorization) => [
    get('/plants', { authorization }),
    get('/plants/1', { authorization }),
    post('{"name":"A"}', { authorization }),
    { method: 'DELETE', path: '/plants/1', headers: { authorization } },
  ]),
  ...['PUT', 'OPTIONS', 'TRACE', 'PROPFIND'].map((method) => ({ method, path: '/plants' })),
  ...['/plants/', '//plants', '/plants?', '/Plants', '/plants/1/2/3', '/plant', '/v1/plants'].map((path) => get(path)),
  ...ids.map((id) => ({ method: 'DELETE', path: `/plants/${id}` })),
  ...ids.map((id) => get(`/plants/${id}`)),
  ...lists.map((query) => get(`/plants${query}`, { accept: 'text/csv', origin: 'http://example.org' })),
  ...Array.from({ length: 70 }, (_none, index) => post(`{"name":"Row ${index}","tag":"tag ${index % 3}"}`)),
  ...['?limit=10', '?limit=10&tag=tag%201', '?tag=tag%202&include=id'].map((query) => get(`/plants${query}`)),
]

interface Reply {
  readonly status: number
  readonly headers: readonly string[]
  readonly text: string
}

function send(url: string, { method, path, body, headers = {} }: Asked): Promise<Reply> {
  const sent = {
    authorization: `Bearer ${secret}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    ...headers,
  }
  return new Promise((done, failed) => {
    const outgoing = request(url + path, { method, headers: sent }, async (incoming) => {
      const text = Buffer.concat(await incoming.toArray()).toString()
      const raw = incoming.rawHeaders
      const lines = raw.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${raw[index + 1]}`] : []))
      done({ status: incoming.statusCode ?? 0, headers: lines, text })
    })
    outgoing.on('error', failed).end(body)
  })
}

/**
 * The reply without what differs from start to start: times, ids, cursors, and versions of lists. The earlier version had no
 * strong `ETag` of one plant.
 */
function steady(text: string): string {
  return text
    .replace(/^(date|x-request-id): .*$/gim, '$1: …')
    .replace(/^etag: "\d+(\.\w+)?"\n/gim, '')
    .replace(/\b(t|r)=\d+/g, '$1=…')
    .replace(/after=[\w-]{20,}/g, 'after=…')
    .replace(/W\/"[^"]+"/g, 'W/"…"')
}

it('answers requests about plants as before, to the byte', async () => {
  expect(asked.length).toBeGreaterThanOrEqual(300)
  const { url } = await spawnService(process.execPath, ['src/main.ts'], {
    folder,
    environment: { BOOTSTRAP_KEY: secret },
  })
  const lines: string[] = []
  for (const each of asked) {
    const { status, headers, text } = await send(url, each)
    const head = `${each.method} ${each.path} ${JSON.stringify(each.headers ?? {})} ${each.body ?? ''}`
    lines.push(steady([head, `${status}`, ...headers, text].join('\n')))
  }
  await expect(`${lines.join('\n\n')}\n`).toMatchFileSnapshot(replies)
})
