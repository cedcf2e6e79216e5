import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectBrokenOff, readChatError, readCompletion, readStream, textOf, textOfStream } from '../../support/chat.ts'
import { startTestService, type TestService } from '../../support/service.ts'

const modes = [false, true]

describe('the understudies that misbehave on purpose', () => {
  let alone: TestService

  beforeAll(async () => {
    alone = await startTestService()
  })

  afterAll(() => alone?.close())

  const question = { messages: [{ role: 'user', content: 'How do I know when to repot?' }], character: 'Fern' }
  const act = (manner: string, stream: boolean, signal?: AbortSignal) =>
    alone.request('/chat/completions', {
      json: { ...question, model: `understudy/${manner}`, stream },
      ...(signal ? { signal } : {}),
    })
  const goodText = async () =>
    textOf(await alone.request('/chat/completions', { json: { ...question, model: 'understudy' } }), false)

  test('slow: waits 2 s, and gives the same reply, whole and streamed', async () => {
    const good = await goodText()
    const slow = modes.map(async (stream) => {
      const begun = performance.now()
      const few = await alone.request('/chat/completions', {
        json: { ...question, model: 'understudy/slow', stream, max_tokens: 3 },
      })
      expect(performance.now() - begun).toBeGreaterThan(1990)
      expect(good.startsWith(await textOf(few, stream))).toBe(true)
    })
    await Promise.all(slow)
  })

  test('stall: three words, and then nothing', async () => {
    const leaving = new AbortController()
    const response = await act('stall', true, leaving.signal)
    expect(response.status).toBe(200)
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (text.split('\n\n').length <= 4) text += (await reader?.read())?.value ?? ''
    expect(text).not.toMatch(/"error"|\[DONE\]|"finish_reason":"/)
    const more = reader?.read().then(() => 'more')
    more?.catch(() => {})
    expect(await Promise.race([more, wait(200, 'nothing')])).toBe('nothing')
    leaving.abort()
    const whole = act('stall', false, AbortSignal.timeout(200)).then(
      () => 'an answer',
      () => 'nothing',
    )
    expect(await whole).toBe('nothing')
  })

  test('cut: three words and an error event, or a 502', async () => {
    const streamed = await readStream(await act('cut', true))
    expectBrokenOff(streamed, 'upstream_error')
    expect(textOfStream(streamed)).toMatch(/^\S+\s+\S+\s+\S+\s*$/)
    expect((await goodText()).startsWith(textOfStream(streamed))).toBe(true)
    const whole = await act('cut', false)
    expect([whole.status, (await readChatError(whole)).code]).toEqual([502, 'upstream_error'])
  })

  test.each(modes)('429 and 500: an error of this status (stream: %s)', async (stream) => {
    const often = await act('429', stream)
    expect([often.status, often.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await readChatError(often)).toMatchObject({ type: 'rate_limit_error', code: 'rate_limit_exceeded' })
    const failed = await act('500', stream)
    expect(failed.status).toBe(500)
    expect(await readChatError(failed)).toMatchObject({ type: 'server_error', code: 'internal_error' })
  })

  test('garbage: invalid JSON as the whole reply, or as the third event of a stream', async () => {
    const whole = await act('garbage', false)
    expect(whole.status).toBe(200)
    expect(await whole.text()).toMatch(/^</)
    const streamed = await act('garbage', true)
    expect(streamed.status).toBe(200)
    const events = (await streamed.text()).split('\n\n')
    const isJson = (text: string) => {
      try {
        JSON.parse(text.slice(6))
        return true
      } catch {
        return false
      }
    }
    expect(events.slice(0, 4).map(isJson)).toEqual([true, true, false, true])
  })

  test('empty: a complete reply without a word, whole and streamed', async () => {
    const whole = await readCompletion(await act('empty', false))
    expect(whole.choices).toMatchObject([{ message: { content: '' }, finish_reason: 'stop' }])
    const streamed = await readStream(await act('empty', true))
    expect([textOfStream(streamed), streamed.isDone, streamed.errors]).toEqual(['', true, []])
  })
})
