import { describe, expect, test } from 'vitest'
import type { CompletionRequest, Message } from '../../../src/openai/completion-request.ts'
import { asked, complete, gardenTools, pixel, toolTurn, vendorForThisTest } from '../../support/ai-sdk.ts'
import { replay } from '../../support/replay.ts'

const control = { cache_control: { type: 'ephemeral' } }
const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } }

/** The body that Claude's server gets for a request, and the ignored parameters that are reported. */
async function sent(more: Readonly<Record<string, unknown>>) {
  const ignored: string[] = []
  const { model, upstream } = await vendorForThisTest('anthropic', [replay('anthropic/text.json')])
  const request: Partial<CompletionRequest> = more
  await complete(
    model,
    asked(request, (name) => ignored.push(name)),
  )
  return { body: upstream.calls[0]?.body ?? {}, ignored }
}

const text = (words: string, more: object = {}) => ({ type: 'text', text: words, ...more })

describe('cache_control reaches Claude', () => {
  test('from text parts and other parts of a user message', async () => {
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` }, ...hour }
    const { body } = await sent({
      messages: [{ role: 'user', content: [text('Long.', control), image, text('Short.')] }],
    })
    expect(body['messages']).toEqual([
      {
        role: 'user',
        content: [text('Long.', control), { type: 'image', source: expect.any(Object), ...hour }, text('Short.')],
      },
    ])
  })

  test('from a message, on its last part', async () => {
    const messages = [
      { role: 'user', content: 'One.', ...control },
      { role: 'assistant', content: 'Two.', ...control },
      { role: 'user', content: [text('Three.'), text('Four.')], ...hour },
    ]
    expect((await sent({ messages })).body['messages']).toEqual([
      { role: 'user', content: [text('One.', control)] },
      { role: 'assistant', content: [text('Two.', control)] },
      { role: 'user', content: [text('Three.'), text('Four.', hour)] },
    ])
  })

  test('from system messages, whose cached prefixes stay blocks of their own', async () => {
    const messages: Message[] = [
      { role: 'system', content: 'You are Fern.' },
      {
        role: 'system',
        content: [
          { ...text('A book.'), type: 'text' },
          { ...text(' Its end.', control), type: 'text' },
        ],
      },
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'Hello' },
      { role: 'system', content: [{ ...text('Later.', hour), type: 'text' }] },
    ]
    const { body } = await sent({ messages })
    expect(body['system']).toEqual([text('You are Fern.\n\nA book. Its end.', control), text('Be short.')])
    expect(body['messages']).toEqual([{ role: 'user', content: [text('Hello'), text('[System note]\nLater.', hour)] }])
  })

  test('from tool results, and from tools, beside the function or in it', async () => {
    const [first, second] = gardenTools ?? []
    const messages = toolTurn.map((message, index) => (index === 2 ? { ...message, ...control } : message))
    const tools = [
      { ...first, ...control },
      { type: 'function', function: { ...(second?.type === 'function' ? second.function : {}), ...hour } },
    ]
    const { body } = await sent({ messages, tools })
    expect(body['messages']).toMatchObject([
      {},
      {},
      { content: [{ type: 'tool_result', tool_use_id: 'call_b', ...control }, { tool_use_id: 'call_a' }] },
    ])
    expect(body['tools']).toMatchObject([control, hour])
  })

  test('from the request itself', async () => {
    const { body, ignored } = await sent(control)
    expect(body).toMatchObject(control)
    expect(ignored).toEqual([])
  })

  test.each([{ cache_control: { type: 'for ever' } }, { cache_control: 'ephemeral' }, { cache_control: null }, {}])(
    'only in a form that Anthropic knows: %j',
    async (other) => {
      const { body } = await sent({ messages: [{ role: 'user', content: [text('One.', other)] }], ...other })
      expect(JSON.stringify(body)).not.toContain('cache_control')
    },
  )
})

test('another provider gets no cache_control, and its prompt stays the same', async () => {
  const { model, upstream } = await vendorForThisTest('google', [replay('google/text.json')])
  const messages: Message[] = [
    { role: 'system', content: [{ type: 'text', text: 'You are Fern.' }] },
    { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
  ]
  const marked = messages.map((message) => ({ ...message, ...control }))
  await complete(model, asked({ messages }))
  await complete(model, asked({ messages: marked }))
  expect(upstream.calls[1]?.body).toEqual(upstream.calls[0]?.body)
})
