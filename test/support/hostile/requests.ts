import { hi, json, postRow, type Row, times } from './row.ts'

/*
 * Requests with bodies, headers, URLs and cursors that are hard to parse, requests for documents, and requests with invalid
 * keys.
 */

const plant = '/plants'
const chat = '/chat/completions'
const small = { model: 'understudy', messages: hi }
const fields = (count: number, value: unknown = 1) => Object.fromEntries(times(count, (index) => [`f${index}`, value]))

/** A row that sends one request repeatedly. */
const askRow = (
  name: string,
  count: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  more: Partial<Row> = {},
): Row => ({
  name,
  warm: (attacker) => attacker.send(path.slice(0, 100), {}),
  prepare: () => async (attacker) => {
    for (let round = 0; round < count; round++) await attacker.send(path, { headers })
  },
  ...more,
})

/** A keyed plant, whose body is compared with the body of a repeated request. */
const keyedPlant: Row = {
  name: 'a keyed POST /plants with 99,500 unknown properties',
  warm: (attacker) => attacker.post(plant, json({ name: 'Moss' })),
  prepare: () => {
    const body = json({ name: 'Moss', ...Object.fromEntries(times(5, (index) => [`o${index}`, fields(19_900)])) })
    return (attacker) =>
      attacker.send(plant, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json', 'idempotency-key': `key-${attacker.index}` },
      })
  },
}

const bodies: readonly Row[] = [
  keyedPlant,
  postRow('8 MB of open brackets', chat, () => Buffer.alloc(8_000_000, '['), { small, isLargest: true }),
  postRow(
    '8 MB of digits',
    chat,
    () => Buffer.concat([Buffer.from('{"a":'), Buffer.alloc(8_000_000, '9'), Buffer.from('}')]),
    { small, isLargest: true },
  ),
  postRow(
    '8 MB of escapes',
    chat,
    () => Buffer.from(`{"model":"understudy","messages":[{"role":"user","content":"${'\\u0041'.repeat(1_300_000)}"}]}`),
    { small, isLargest: true },
  ),
  ...['user', 'instructions'].map((name) =>
    postRow(
      `a streamed response that repeats "${name}" of 7.5 MB`,
      '/responses',
      () => json({ model: 'understudy', input: 'Hi', stream: true, [name]: 'a'.repeat(7_500_000) }),
      { small: { model: 'understudy', input: 'Hi', stream: true }, isLargest: true },
    ),
  ),
  postRow(
    '3.7 million marks, in runs that are just not cut for the tokenizer',
    chat,
    () => json({ ...small, messages: [{ role: 'user', content: `${'\u0301'.repeat(126)}1`.repeat(29_000) }] }),
    { small, isLargest: true },
  ),
  postRow('8 MB of backslashes', chat, () => Buffer.from(`{"a":"${'\\\\'.repeat(3_900_000)}"}`), {
    small,
    isLargest: true,
  }),
  postRow('600,000 parameters that nobody knows', chat, () => json({ ...small, ...fields(600_000) }), {
    small,
    isLargest: true,
  }),
  postRow(
    '600,000 parameters that nobody knows, translated',
    chat,
    () => json({ model: 'claude', messages: hi, ...fields(600_000) }),
    { small: { model: 'claude', messages: hi }, isLargest: true },
  ),
  postRow(
    '600,000 parameters that nobody knows, passed on',
    chat,
    () => json({ model: 'relay', messages: hi, ...fields(600_000) }),
    { small: { model: 'relay', messages: hi }, isLargest: true },
  ),
  ...['understudy', 'claude', 'relay'].map((model) =>
    postRow(
      `19,000 parameters that nobody knows: ${model}`,
      chat,
      () => json({ model, messages: hi, ...fields(19_000) }),
      {
        small: { model, messages: hi },
      },
    ),
  ),
  postRow(
    '19,000 parameters that nobody knows, as a response',
    '/responses',
    () => json({ model: 'relay', input: 'Hi', ...fields(19_000) }),
    { small: { model: 'relay', input: 'Hi' } },
  ),
  postRow(
    '440 tool calls whose ids of 16,390 letters differ at the end',
    chat,
    () => {
      const tool_calls = times(440, (index) => ({
        id: String(index).padStart(16_390, 'c'),
        type: 'function',
        function: { name: 'f', arguments: '{}' },
      }))
      return json({ ...small, messages: [...hi, { role: 'assistant', tool_calls }, ...hi] })
    },
    { small, isLargest: true },
  ),
  postRow(
    'metadata of 2,600,000 empty arrays',
    chat,
    () =>
      Buffer.from(
        `{"model":"none","messages":[{"role":"user","content":"Hi"}],"metadata":{"a":[${times(2_600_000, () => '[]').join()}]}}`,
      ),
    { small, isLargest: true },
  ),
  postRow(
    '100,000 messages that are wrong',
    chat,
    () => json({ model: 'understudy', messages: times(100_000, () => ({ role: 'nobody', content: 7 })) }),
    { small, isLargest: true },
  ),
  postRow('a plant with 80,000 unknown properties', plant, () => json({ name: 'Moss', ...fields(80_000) }), {
    small: { name: 'Moss' },
    isLargest: true,
  }),
  postRow('a plant whose name is 1 MB long', plant, () => json({ name: 'é'.repeat(500_000) }), {
    small: { name: 'Moss' },
    isLargest: true,
  }),
  postRow(
    'a key for 80,000 models',
    '/keys',
    () => json({ scopes: ['chat'], models: times(80_000, (index) => `m${index}`) }),
    { small: { scopes: ['chat'] }, isLargest: true },
  ),
  {
    name: 'lists of 400 keys with 100 models of 255 letters, and their audit records',
    prepare: () => {
      const models = times(100, (index) => `model ${index}`.padEnd(255, 'é'))
      const body = json({ scopes: ['chat'], models })
      return async (attacker) => {
        for (let index = 0; index < 400; index++) await attacker.post('/keys', body)
        for (let round = 0; round < 3; round++) {
          await attacker.send('/keys')
          await attacker.send('/audit?limit=1000')
        }
      }
    },
  },
  {
    name: 'a keyed plant with 80,000 unknown properties',
    isLargest: true,
    prepare: () => {
      const body = json({ name: 'Moss', ...fields(80_000) })
      return (attacker) =>
        attacker.send(plant, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json', 'idempotency-key': 'a' },
        })
    },
  },
  {
    name: '60 plants, one after the other',
    prepare: () => async (attacker) => {
      for (let index = 0; index < 60; index++) await attacker.post(plant, json({ name: `Plant ${index}` }))
    },
  },
]

const heads: readonly Row[] = [
  askRow('a cursor of 14 kB', 20, `/plants?limit=1&after=${'A'.repeat(14_000)}`),
  askRow('a query of 1,800 parameters', 20, `/plants?${times(1800, (index) => `${index}=1`).join('&')}`),
  askRow('a query of 14 kB of percent signs', 20, `/plants?tag=${'%'.repeat(14_000)}`),
  askRow('an If-None-Match of 14 kB', 20, '/plants', { 'if-none-match': '"a",'.repeat(3500) }),
  askRow(
    'an Accept-Encoding of 14 kB',
    20,
    '/openapi.json',
    { 'accept-encoding': 'gzip;q=0.1,'.repeat(1300) },
    { isKeyless: true },
  ),
  askRow('700 headers', 20, '/plants', Object.fromEntries(times(700, (index) => [`x-${index}`, 'a']))),
  askRow('a path of 14 kB', 20, `/characters/${'%C3%A9'.repeat(2300)}`),
  askRow('a model of 14 kB', 20, `/models/${'a'.repeat(14_000)}`),
  askRow('usage of a thousand years, by day', 5, '/usage?from=1970-01-01&to=2970-01-01&by=day'),
  askRow('wrong keys', 20, '/plants', { authorization: `Bearer cv_${'a'.repeat(40)}` }, { isKeyless: true }),
]

/** A row whose attackers send a request without a key, and do not read the reply for a while. */
const unread = (name: string, path: string, headers: Readonly<Record<string, string>> = {}): Row => ({
  name,
  isKeyless: true,
  warm: (attacker) => attacker.send(path, { headers }),
  prepare: () => (attacker) => attacker.send(path, { headers, unreadFor: 2 }),
})
const documents: readonly Row[] = [
  unread('/docs/swagger-ui.js, not read', '/docs/swagger-ui.js'),
  unread('/docs/swagger-ui.js, compressed and not read', '/docs/swagger-ui.js', { 'accept-encoding': 'gzip, br' }),
  unread('/openapi.json, not read', '/openapi.json'),
]

export const requests: readonly Row[] = [...bodies, ...heads, ...documents]
