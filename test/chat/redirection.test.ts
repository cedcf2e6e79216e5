import { describe, expect, test } from 'vitest'
import { readChatError } from '../support/chat.ts'
import { json, pieces, streamOf } from '../support/upstream.ts'
import { service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

const messages = [{ role: 'user', content: 'Hello' }]
const canary = 'canary.example'
const redirecting = {
  api_base: `https://${canary}/v1`,
  base_url: `https://${canary}/v1`,
  api_key: `sk-${canary}`,
  extra_headers: { authorization: `Bearer ${canary}` },
  extra_body: { api_base: `https://${canary}/v1` },
}
const names = Object.keys(redirecting)

upstreamServiceForThisFile((url) => {
  const openAi = { adapter: 'openai', baseUrl: `${url}/v1`, retries: 0 }
  return {
    understudy: { adapter: 'understudy' },
    m: openAi,
    set: { ...openAi, defaults: { extra_body: { top_k: 3 } } },
    claude: {
      adapter: '@ai-sdk/anthropic',
      baseUrl: `${url}/v1`,
      apiKey: 'sk-operators-own',
      model: 'claude',
    },
    first: { fallback: ['broken', 'm'] },
    broken: { ...openAi, baseUrl: 'http://127.0.0.1:9/v1' },
  }
})

function post(body: object, path = '/chat/completions'): Promise<Response> {
  return service.request(path, { json: { messages, ...body } })
}

function ignoredIn(response: Response): readonly string[] {
  return (response.headers.get('x-ignored-params') ?? '').split(',').filter((name) => name !== '')
}

describe('parameters that would redirect a request', () => {
  test.each(['m', 'first', 'understudy'])('never pass to an upstream, and are named: %s', async (model) => {
    const response = await post({ model, ...redirecting, frobnicate: 1 })
    expect(response.status).toBe(200)
    const expected = model === 'understudy' ? [...names, 'frobnicate'] : names
    expect(ignoredIn(response).toSorted()).toEqual(expected.toSorted())
    const said = JSON.stringify(upstream.calls.map(({ body, headers, path }) => [body, headers, path]))
    expect(said).not.toContain(canary)
    for (const name of names) expect(said).not.toContain(name)
    expect(upstream.calls).toHaveLength(model === 'understudy' ? 0 : 1)
    if (model !== 'understudy') expect(said).toContain('frobnicate')
  })

  test('never pass to a vendor with its own API', async () => {
    upstream.answer(
      json({
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'claude',
        content: [{ type: 'text', text: 'Hello.' }],
        stop_reason: 'end_turn',
        stop_sequence: null,
        usage: { input_tokens: 1, output_tokens: 1 },
      }),
    )
    const response = await post({ model: 'claude', ...redirecting })
    expect(response.status).toBe(200)
    expect(ignoredIn(response).toSorted()).toEqual(names.toSorted())
    expect(JSON.stringify(upstream.calls.map(({ body, headers }) => [body, headers]))).not.toContain(canary)
  })

  test('never pass in a stream', async () => {
    upstream.answer(pieces(streamOf('one two')))
    const response = await post({ model: 'm', stream: true, ...redirecting })
    await response.text()
    expect(ignoredIn(response).toSorted()).toEqual(names.toSorted())
    expect(Object.keys(upstream.calls[0]?.body ?? {}).filter((name) => names.includes(name))).toEqual([])
  })

  test('are not named if they are null', async () => {
    const response = await post({ model: 'm', ...Object.fromEntries(names.map((name) => [name, null])) })
    expect([response.status, ignoredIn(response)]).toEqual([200, []])
    expect(Object.keys(upstream.calls[0]?.body ?? {}).filter((name) => names.includes(name))).toEqual([])
  })

  test('can be set by the operator', async () => {
    await post({ model: 'set', extra_body: { top_k: 9 } })
    expect(upstream.calls[0]?.body).toMatchObject({ extra_body: { top_k: 3 } })
  })
})

describe('pictures, sounds and files in messages', () => {
  const asked = (part: object, path?: string) =>
    post({ model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'Look' }, part] }] }, path)
  const image = (url: string) => ({ type: 'image_url', image_url: { url } })
  const file = (fields: object) => ({ type: 'file', file: fields })
  const sound = (data: string) => ({ type: 'input_audio', input_audio: { data, format: 'wav' } })

  test.each([
    image('https://pictures.example/fern.png'),
    image('HTTP://pictures.example/fern.png'),
    image('data:image/png;base64,AAAA'),
    file({ file_data: 'data:application/pdf;base64,AAAA', filename: 'C:\\care.pdf' }),
    file({ file_data: 'JVBERi0xLjQK', filename: 'care.pdf' }),
    file({ file_id: 'file-abc123' }),
    sound('UklGRgAA/AAA'),
    { type: 'video_url', video_url: { url: 'https://pictures.example/fern.mp4' } },
    { type: 'audio_url', audio_url: { url: 'data:audio/wav;base64,AAAA' } },
    file({ file_url: 'https://pictures.example/care.pdf' }),
  ])('pass as content, as addresses of the web, and by their id: %j', async (part) => {
    expect((await asked(part)).status).toBe(200)
    expect(JSON.stringify(upstream.calls[0]?.body)).toContain(JSON.stringify(part))
  })

  const others = [
    'file:///etc/passwd',
    'FILE:/etc/passwd',
    'ftp://a.example/b',
    'gs://bucket/x',
    'javascript:1',
    'blob:x',
  ]
  const refused: [string, object][] = [
    ...others.flatMap((url): [string, object][] => [
      ['image_url.url', image(url)],
      ['file.file_data', file({ file_data: url })],
      ['file.file_id', file({ file_id: url })],
      ['file.file_url', file({ file_url: url })],
      ['input_audio.data', sound(url)],
      ['video_url.url', { type: 'video_url', video_url: { url } }],
      ['audio_url.url', { type: 'audio_url', audio_url: { url } }],
      ['image_url.path', { type: 'image_url', image_url: { url: 'https://a.example/b', path: url } }],
    ]),
    ['image_url.url', image(' file:///etc/passwd')],
    ['image_url.url', image('/etc/passwd')],
    ['image_url.url', image('//a.example/fern.png')],
    ['image_url.url', image('https:a.example')],
    ['file.file_data', file({ file_data: '\n\tfile:///etc/passwd' })],
    ['file.file_data', file({ file_data: `${' '.repeat(999)}file:///etc/passwd` })],
    ['file.file_data', file({ file_data: `${'\t'.repeat(5000)}file:///etc/passwd` })],
    ['file', file({ file_id: 'a', ...Object.fromEntries(Array.from({ length: 64 }, (_, index) => [`f${index}`, 1])) })],
    // A part may have more fields than its type names.
    ['image_url.url', { type: 'text', text: 'x', image_url: { url: 'file:///etc/passwd' } }],
  ]
  test.each(refused)('are refused with any other URL, and the error names the field: %s in %j', async (param, part) => {
    for (const path of ['/chat/completions', '/chat/prompt']) {
      const response = await asked(part, path)
      expect(response.status).toBe(400)
      const error = await readChatError(response)
      expect(error.param).toBe(`messages[0].content[1].${param}`)
      expect(error.message).not.toContain('passwd')
    }
    expect(upstream.calls).toEqual([])
  })
})
