import * as fc from 'fast-check'
import { anyCharacter } from './any-character.ts'

/** A valid body of a chat request. Faulty bodies are made from it. */
export const chatBody = { model: 'understudy', character: 'Fern', messages: [{ role: 'user', content: 'Hello' }] }
/** A valid body of `POST /plants`. */
export const plantBody = { name: 'Monstera', tag: 'aroid' }

/** A request that an HTTP client can send. */
export interface Attempt {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | undefined
}

/** A request as raw bytes, which a test sends over a new connection. */
export interface RawAttempt {
  readonly isHead: boolean
  readonly bytes: (key: string) => Uint8Array
}

/** A request as one line, for the message of a failed test. */
export function shown(attempt: Attempt | RawAttempt, key: string): string {
  if ('bytes' in attempt) return JSON.stringify(Buffer.from(attempt.bytes(key)).toString('latin1')).slice(0, 600)
  const body = typeof attempt.body === 'string' ? attempt.body : Buffer.from(attempt.body ?? []).toString('latin1')
  return JSON.stringify({ ...attempt, body }).slice(0, 600)
}

/** Any value of any type, also values that often break programs. */
function values(): fc.Arbitrary<unknown> {
  const odd = [
    null,
    '',
    ' ',
    '\u0000',
    '\ud800',
    'a\udc00',
    '🌵',
    '__proto__',
    0,
    -0,
    -1,
    1.5,
    1e6,
    2 ** 31,
    2 ** 53,
    1e308,
    true,
    [],
    [[]],
    {},
  ]
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom<unknown>(...odd) },
    { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
    { weight: 1, arbitrary: fc.string({ unit: anyCharacter, maxLength: 300 }) },
    { weight: 1, arbitrary: fc.double() },
  )
}

/** A JSON text of this body with fields that are changed, added, missing or repeated; sometimes cut or deeply nested. */
function mutated(valid: Readonly<Record<string, unknown>>, fields: readonly string[]): fc.Arbitrary<string> {
  const changes = fc.dictionary(fc.oneof(fc.constantFrom(...fields), fc.string({ maxLength: 8 })), values(), {
    minKeys: 1,
    maxKeys: 4,
    noNullPrototype: true,
  })
  const text = fc.tuple(changes, fc.subarray(Object.keys(valid), { maxLength: 1 })).map(([changed, leftOut]) => {
    const entries = Object.entries({ ...valid, ...changed }).filter(([name]) => !leftOut.includes(name))
    return JSON.stringify(Object.fromEntries(entries))
  })
  return fc.oneof(
    { weight: 8, arbitrary: text },
    { weight: 1, arbitrary: fc.tuple(text, fc.nat(200)).map(([json, end]) => json.slice(0, end)) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(text, values())
        .map(([json, value]) => `{"model":${JSON.stringify(value) ?? 0},${json.slice(1)}`),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(text, fc.nat(5000))
        .map(([json, depth]) => `{"x":${'['.repeat(depth)}${']'.repeat(depth)},${json.slice(1)}`),
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom(...hugeNumbers)
        .map((number) => `${JSON.stringify(valid).slice(0, -1)},"n":${number},"id":${number}}`),
    },
  )
}

const hugeNumbers = [
  '1e999',
  '-1e999',
  '9007199254740993',
  '1e-999',
  '0.1e1',
  `1${'0'.repeat(400)}`,
  '-0',
  '00',
  '0x1',
  'NaN',
]

/** A chat body with up to four messages. Each message and each of its fields may have any value; all other fields are valid. */
function oddMessages(): fc.Arbitrary<string> {
  const roles = fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool', 'function')
  const part = fc.record(
    {
      type: fc.constantFrom('text', 'image_url', 'input_audio', 'file', 'refusal'),
      text: values(),
      image_url: values(),
    },
    { requiredKeys: [] },
  )
  const message = fc.record(
    {
      role: fc.oneof({ weight: 5, arbitrary: roles }, { weight: 1, arbitrary: values() }),
      content: fc.oneof(fc.string({ unit: anyCharacter }), fc.array(part, { maxLength: 3 }), values()),
      name: values(),
      tool_calls: fc.oneof(
        values(),
        fc.array(fc.record({ id: values(), type: fc.constant('function'), function: values() }), { maxLength: 2 }),
      ),
      tool_call_id: values(),
    },
    { requiredKeys: ['role'] },
  )
  return fc
    .tuple(
      fc.array(fc.oneof({ weight: 5, arbitrary: message }, { weight: 1, arbitrary: values() }), { maxLength: 4 }),
      fc.boolean(),
    )
    .map(([messages, stream]) => JSON.stringify({ ...chatBody, messages, stream }))
}

const chatFields = [
  'model character user_name messages stream stream_options max_tokens max_completion_tokens n stop seed temperature',
  'top_p presence_penalty frequency_penalty logprobs top_logprobs tools tool_choice parallel_tool_calls',
  'response_format reasoning_effort user metadata functions function_call logit_bias constructor __proto__ toString',
].flatMap((line) => line.split(' '))

/** Random requests to both interfaces, most of them faulty. */
export function attempts(): fc.Arbitrary<Attempt> {
  const chatPath = fc.constantFrom('/chat/completions', '/v1/chat/completions')
  const json = fc.constantFrom('application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON')
  const post = (path: fc.Arbitrary<string>, body: fc.Arbitrary<string | Uint8Array>) =>
    fc.record({ method: fc.constant('POST'), path, headers: fc.record({ 'content-type': json }), body })
  const ids = fc.oneof(
    fc.integer().map(String),
    fc.bigInt().map(String),
    fc.constantFrom(
      '',
      '0',
      '-0',
      '1.5',
      '1e3',
      '+1',
      '%201',
      '0x1',
      'NaN',
      'null',
      '%31',
      '%',
      '%zz',
      '%00',
      '%ff',
      '..',
      '9007199254740992',
    ),
    fc.webSegment({ size: 'small' }),
    fc.nat(3000).map((length) => '1'.repeat(length)),
  )
  const queries = fc.oneof(
    fc.webQueryParameters({ size: 'small' }),
    fc
      .array(fc.tuple(fc.constantFrom('limit', 'tag', 'after', 'x'), fc.oneof(ids, fc.string())), { maxLength: 3 })
      .map((pairs) => pairs.map(([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed())}`).join('&')),
    fc.constantFrom(
      'limit',
      'limit=',
      'limit=%',
      'limit[]=1',
      'limit=1&limit=2',
      '=',
      '&&',
      '?',
      '%00',
      'after=AAAA',
      `tag=${'a'.repeat(5000)}`,
    ),
  )
  const paths = fc.oneof(
    fc.constantFrom(
      '/plants',
      '/plants/',
      '/chat/completions',
      '/chat/completions/',
      '/v1/chat/completions',
      '/models',
      '/v1/models/',
      '/models/x/y',
      '/',
      '/v1',
      '/chat',
      '//plants',
      '/plants//',
      '/plants/../models',
      '/docs/x',
      '/openapi.json',
      '/livez',
      '/readyz',
      '/%',
      '/%00',
      '/plants/%',
    ),
    ids.map((id) => `/plants/${id}`),
    ids.map((id) => `/models/${id}`),
    fc.webPath({ size: 'small' }).map((path) => `/${path.replace(/^\//, '')}`),
    fc
      .tuple(fc.constantFrom('/plants', '/models', '/chat/completions'), queries)
      .map(([path, query]) => `${path}?${query}`),
  )
  const methods = fc.constantFrom(
    'GET',
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'HEAD',
    'OPTIONS',
    'TRACE',
    'PROPFIND',
    'QUERY',
  )
  const headerText = fc.string({
    unit: fc
      .integer({ min: 0x20, max: 0xff })
      .map((code) => String.fromCharCode(code))
      .filter((letter) => letter !== '\x7f'),
    maxLength: 40,
  })
  const headers = fc
    .tuple(
      fc.constantFrom(
        'application/json',
        'text/plain',
        'application/xml',
        'multipart/form-data',
        'application/x-www-form-urlencoded',
        'application/json;charset=latin1',
        'json',
        '',
        '*/*',
        'application/jsonx',
      ),
      fc.dictionary(
        fc.oneof(
          fc.constantFrom(
            'accept',
            'accept-encoding',
            'content-encoding',
            'idempotency-key',
            'if-none-match',
            'range',
            'origin',
            'cookie',
            'x-request-id',
            'x-http-method-override',
            'accept-version',
          ),
          fc.stringMatching(/^x-[a-z]{1,10}$/),
        ),
        headerText,
        { maxKeys: 3, noNullPrototype: true },
      ),
    )
    .map(([type, more]): Record<string, string> => ({ ...more, 'content-type': type }))
  const bodies = fc.oneof(
    fc.constant(undefined),
    fc.json(),
    fc.uint8Array({ maxLength: 300 }),
    fc.string({ unit: anyCharacter }),
    fc.constant(JSON.stringify(chatBody)),
    fc.constant(JSON.stringify(plantBody)),
  )
  return fc.oneof(
    { weight: 5, arbitrary: post(chatPath, mutated({ ...chatBody, stream: true }, chatFields)) },
    { weight: 3, arbitrary: post(chatPath, mutated({ ...chatBody, model: 'upstream' }, chatFields)) },
    { weight: 4, arbitrary: post(chatPath, oddMessages()) },
    {
      weight: 4,
      arbitrary: post(fc.constant('/plants'), mutated({ ...plantBody, id: 7 }, ['name', 'id', 'tag', '__proto__'])),
    },
    {
      weight: 2,
      arbitrary: post(
        fc.oneof(chatPath, fc.constant('/plants')),
        fc.oneof(fc.json(), fc.uint8Array({ maxLength: 300 })),
      ),
    },
    { weight: 5, arbitrary: fc.record({ method: methods, path: paths, headers, body: bodies }) },
    {
      weight: 2,
      arbitrary: fc.record({
        method: fc.constant('GET'),
        path: paths,
        headers: fc.constant({}),
        body: fc.constant(undefined),
      }),
    },
  )
}

/**
 * Bytes that an HTTP client would never send. They are sent over a new connection, which is closed after them. The path may be
 * unclear, so a refusal may have the error format of plants or of chat.
 */
export function rawAttempts(): fc.Arbitrary<RawAttempt> {
  const path = fc.constantFrom('/plants', '/chat/completions', '/models')
  const requestOf = (method: string, target: string, key: string, headers: string, body: string) =>
    Buffer.from(
      `${method} ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n${headers}\r\n${body}`,
      'latin1',
    )
  const garbage = fc
    .uint8Array({ minLength: 1, maxLength: 200 })
    .map((bytes): RawAttempt => ({ isHead: false, bytes: () => bytes }))
  const oddHeaders = fc.constantFrom(
    'Content-Length: 5\r\nContent-Length: 6\r\n',
    'Content-Length: -1\r\n',
    'Content-Length: 1e3\r\n',
    'Content-Length: 10000\r\n',
    'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n',
    'Transfer-Encoding: gzip\r\n',
    'Transfer-Encoding: chunked\r\n',
    'Upgrade: websocket\r\nConnection: Upgrade\r\n',
    'Expect: 100-continue\r\nContent-Length: 2\r\n',
    'Expect: something\r\n',
    'Authorization: Bearer other\r\n',
    'No colon\r\n',
    ': no name\r\n',
    'Folded: a\r\n b\r\n',
    'X: \0\r\n',
    `X: ${'a'.repeat(20_000)}\r\n`,
    'Host: y\r\n',
    'Content-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n',
  )
  const odd = fc
    .tuple(
      fc.constantFrom('GET', 'POST', 'DELETE', 'HEAD', 'get', 'NONSENSE'),
      path,
      oddHeaders,
      fc.constantFrom('', '{}', '{"name":', '5\r\n{}', 'zz\r\n'),
    )
    .map(
      ([method, target, headers, body]): RawAttempt => ({
        isHead: method === 'HEAD',
        bytes: (key) => requestOf(method, target, key, headers, body),
      }),
    )
  const targets = fc
    .tuple(
      fc.constantFrom('GET', 'OPTIONS', 'POST', 'CONNECT', 'DELETE'),
      fc.constantFrom(
        '*',
        'x:1',
        'http://x/chat',
        'HTTP://X',
        '/a b',
        '/\t',
        '/\xe9',
        '/chat#x',
        '?',
        '',
        '/chat\\x',
        '/\0',
      ),
    )
    .map(
      ([method, target]): RawAttempt => ({
        isHead: false,
        bytes: (key) => requestOf(method, target, key, '', ''),
      }),
    )
  const cut = fc.tuple(path, fc.nat(200)).map(
    ([target, end]): RawAttempt => ({
      isHead: false,
      bytes: (key) =>
        requestOf(
          'POST',
          target,
          key,
          'Content-Type: application/json\r\nContent-Length: 20\r\n',
          '{"name":"a","id":1}',
        ).subarray(0, end),
    }),
  )
  const flipped = fc.tuple(path, fc.nat(250), fc.nat(255)).map(
    ([target, place, byte]): RawAttempt => ({
      isHead: false,
      bytes: (key) => {
        const bytes = requestOf(
          'POST',
          target,
          key,
          'Content-Type: application/json\r\nContent-Length: 19\r\n',
          '{"name":"a","id":1}',
        )
        bytes[place % bytes.length] = byte
        return bytes
      },
    }),
  )
  return fc.oneof(garbage, odd, targets, cut, flipped)
}
