import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasPublicHost } from '../../src/openai/public-urls.ts'
import { readChatError } from '../support/chat.ts'
import { often } from '../support/often.ts'
import { pieces, streamOf } from '../support/upstream.ts'
import { service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile((url) => {
  const openAi = { adapter: 'openai', baseUrl: `${url}/v1`, retries: 0 }
  return {
    understudy: { adapter: 'understudy' },
    m: openAi,
    claude: {
      adapter: '@ai-sdk/anthropic',
      baseUrl: `${url}/v1`,
      apiKey: 'sk-operators-own',
      model: 'claude',
    },
    open: { ...openAi, privateUrls: true },
    both: { fallback: ['m', 'open'] },
    neither: { fallback: ['m', 'understudy'] },
  }
})

const privateHosts = [
  ...[
    '127.0.0.1',
    '10.1.2.3',
    '169.254.169.254',
    '203.0.113.7',
    '0',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '017700000001',
  ],
  ...['0177.0.0.1', '127.1', '127.0.0.1.', '127.0.0.1:8080', '%31%32%37.0.0.1', '１２７.0.0.1', '127。0。0。1'],
  ...['[::1]', '[::]', '[fd00::1]', '[fe80::1]:80', '[::ffff:10.0.0.1]', '[::ffff:a00:1]', '[64:ff9b::7f00:1]'],
  ...['localhost', 'LOCALHOST:3000', 'localhost.', 'a.localhost', 'ollama', 'ollama:11434', 'intranet.'],
  ...['nas.local', 'NAS.Local', 'nas.local.', 'vault.internal', 'metadata.google.internal:80', 'router.home.arpa'],
  ...[
    'user:password@127.0.0.1',
    'a.example@10.0.0.1',
    'a@b@a.example',
    'a.example\\@127.0.0.1',
    '127.0.0.1\\.a.example',
  ],
  ...['a.example\t', 'a .example', '', '/127.0.0.1', 'a.'.repeat(300)],
]
const publicHosts = [
  ...['a.example', 'a.example:8443', 'A.EXAMPLE.', 'x.y.a.example', 'user:password@a.example', 'local.example'],
  ...[
    'internal.example',
    'localhost.example',
    '127.0.0.1.a.example',
    'bücher.example',
    'пример.рф',
    'xn--e1afmkfd.xn--p1ai',
  ],
]

const image = (url: string) => ({ type: 'image_url', image_url: { url } })
function post(model: string, part: object, more: object = {}, path = '/chat/completions'): Promise<Response> {
  const content = [{ type: 'text', text: 'Look' }, part]
  return service.request(path, { json: { model, messages: [{ role: 'user', content }], ...more } })
}

async function expectRefusal(response: Response, param: string): Promise<void> {
  expect(response.status).toBe(400)
  const error = await readChatError(response)
  expect(error).toMatchObject({ code: 'private_url', param })
  expect(error.message).toContain('public name')
  expect(upstream.calls).toEqual([])
}

describe('a URL with a private host', () => {
  test.each(privateHosts)('goes only to models with privateUrls: %j', async (host) => {
    const part = image(`http://${host}/fern.png`)
    await expectRefusal(await post('m', part), 'messages[0].content[1].image_url.url')
    expect((await post('open', part)).status).toBe(200)
    expect(JSON.stringify(upstream.calls[0]?.body)).toContain(JSON.stringify(part))
  })

  const url = 'HTTPS://192.168.0.1/x'
  test.each([
    ['image_url.url', image(url)],
    ['video_url.url', { type: 'video_url', video_url: { url } }],
    ['audio_url.url', { type: 'audio_url', audio_url: { url } }],
    ['input_audio.data', { type: 'input_audio', input_audio: { data: url, format: 'wav' } }],
    ['file.file_data', { type: 'file', file: { file_data: url } }],
    ['file.file_id', { type: 'file', file: { file_id: url } }],
    ['file.file_url', { type: 'file', file: { file_id: 'a', file_url: url } }],
    ['image_url.url', { type: 'text', text: 'x', image_url: { url } }],
  ])('is refused in each kind of part, on each route, and for each kind of model: %s', async (field, part) => {
    const param = `messages[0].content[1].${field}`
    for (const model of ['m', 'claude', 'understudy', 'neither']) {
      for (const stream of [false, true]) await expectRefusal(await post(model, part, { stream }), param)
      await expectRefusal(await post(model, part, {}, '/chat/prompt'), param)
    }
  })

  test('is refused in the Responses API under its own name, and in the result of a tool', async () => {
    const ask = (content: object) =>
      service.request('/responses', { json: { model: 'm', input: [{ role: 'user', content: [content] }] } })
    await expectRefusal(await ask({ type: 'input_image', image_url: url }), 'input[0].content[0].image_url')
    await expectRefusal(await ask({ type: 'input_file', file_data: url }), 'input[0].content[0].file_data')
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
    const messages = [
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c', content: [image(url)] },
    ]
    const response = await service.request('/chat/completions', { json: { model: 'm', messages } })
    await expectRefusal(response, 'messages[1].content[0].image_url.url')
  })

  test('goes to the model of a fallback list that takes it', async () => {
    const response = await post('both', image(url))
    expect([response.status, response.headers.get('x-model')]).toEqual([200, 'open'])
    upstream.calls.length = 0
    upstream.answer(pieces(streamOf('one two')))
    expect((await post('both', image(url), { stream: true })).headers.get('x-model')).toBe('open')
  })
})

test.each(publicHosts)('a URL with a public host goes to every model: %s', async (host) => {
  const part = image(`https://${host}/fern.png?at=http://127.0.0.1/#@localhost`)
  expect((await post('m', part)).status).toBe(200)
  expect(JSON.stringify(upstream.calls[0]?.body)).toContain(JSON.stringify(part))
})

test('texts, data: URLs, names of files and ids are no addresses', async () => {
  const parts = [
    { type: 'text', text: 'http://127.0.0.1/' },
    image('data:image/png;base64,AAAA'),
    { type: 'file', file: { file_id: 'file-1', filename: 'http://127.0.0.1/' } },
  ]
  for (const part of parts) expect((await post('m', part)).status).toBe(200)
})

const spread = 'h\nttp://127.0.0.1/'
test.each([
  ['file.file_data', { file_data: spread }],
  ['file.file_url', { file_id: 'a', file_url: 'https\t://127.0.0.1/' }],
  ['file.file_data', { file_data: `f${'\r'.repeat(2000)}ile:///etc/passwd` }],
  ['input_audio.data', { data: spread, format: 'wav' }],
  ['image_url.preview', { url: 'https://a.example/', preview: spread }],
])('a scheme with line breaks, which URL parsers leave out, goes to no model: %s', async (field, content) => {
  const kind = field.split('.')[0] ?? ''
  const response = await post('open', { type: kind, [kind]: content })
  expect(response.status).toBe(400)
  const param = `messages[0].content[1].${field}`
  expect(await readChatError(response)).toMatchObject({ code: 'invalid_field', param })
  expect(upstream.calls).toEqual([])
})

test('base64 in lines goes to every model', async () => {
  const lines = `\r\n${'QUJD'.repeat(19)}\r\n${'QUJD'.repeat(5)}`
  const part = { type: 'file', file: { file_data: lines } }
  expect((await post('m', part)).status).toBe(200)
  expect(upstream.calls).toHaveLength(1)
})

test('more URLs than models take are a 400', async () => {
  const messages = [0, 1].map(() => ({ role: 'user', content: Array.from({ length: 900 }, () => file(8)) }))
  const error = await readChatError(await service.request('/chat/completions', { json: { model: 'm', messages } }))
  expect(error).toMatchObject({ code: 'invalid_field', param: 'messages' })

  function file(count: number): object {
    const urls = Array.from({ length: count }, (_, index) => [`u${index}`, 'http://a.example/'])
    return { type: 'file', file: { file_id: 'a', ...Object.fromEntries(urls) } }
  }
})

test('no form of an IP address is public, and no URL is that the URL parser refuses', () => {
  const number = (value: number) =>
    fc.constantFrom(String(value), `0x${value.toString(16)}`, `0${value.toString(8)}`, `0X${value.toString(16)}`)
  const byte = fc.nat(255).chain(number)
  const ipv4 = fc.oneof(
    fc.tuple(byte, byte, byte, byte).map((bytes) => bytes.join('.')),
    fc.tuple(byte, fc.nat(2 ** 24 - 1).chain(number)).map((bytes) => bytes.join('.')),
    fc.nat(2 ** 32 - 1).chain(number),
  )
  const host = fc.oneof(
    ipv4,
    fc.ipV6().map((address) => `[${address}]`),
    fc.string(),
  )
  fc.assert(
    fc.property(host, fc.constantFrom('', '.', ':80', '/', '?x', '#x'), (written, end) => {
      const url = `http://${written}${end}`
      const hostname = URL.parse(url)?.hostname ?? ''
      const isName = /\./.test(hostname) && !/^\[|(?:^|\.)\d+\.?$/.test(hostname)
      expect(hasPublicHost(url) && !isName).toBe(false)
    }),
    { numRuns: often(1000) },
  )
})
