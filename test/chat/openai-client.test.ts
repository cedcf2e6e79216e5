import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { alone, service, servicesForClientsForThisFile, upstream } from '../support/clients.ts'
import { chunkText, json, pieces } from '../support/upstream.ts'

servicesForClientsForThisFile()

const request = {
  model: 'understudy',
  character: 'Fern',
  messages: [{ role: 'user' as const, content: 'How do I know when to repot?' }],
}

describe.each(['', '/v1'])('the official client with the base URL of the service and "%s"', (path) => {
  const client = (apiKey = service.key, of = service) => new OpenAI({ baseURL: of.url + path, apiKey, maxRetries: 0 })

  test('gets a whole reply', async () => {
    const { data: completion, response, request_id } = await client().chat.completions.create(request).withResponse()
    expect(completion.choices).toHaveLength(1)
    expect(completion.choices[0]?.message.content).toMatch(/root/i)
    expect(completion.choices[0]?.finish_reason).toBe('stop')
    expect(completion.usage?.total_tokens).toBeGreaterThan(0)
    expect(request_id).toMatch(/^req_/)
    expect(response.headers.get('x-character')).toMatch(/^Fern@sha256:/)
  })

  test('streams the text of the whole reply', async () => {
    const whole = await client().chat.completions.create(request)
    const asked = { ...request, stream: true as const, stream_options: { include_usage: true } }
    let text = ''
    let usage: OpenAI.CompletionUsage | undefined
    for await (const chunk of await client().chat.completions.create(asked)) {
      text += chunk.choices[0]?.delta.content ?? ''
      usage = chunk.usage ?? usage
    }
    expect(text).toBe(whole.choices[0]?.message.content)
    expect(usage).toEqual(whole.usage)
  })

  test('assembles a stream with its helper', async () => {
    const whole = await client().chat.completions.create({ ...request, n: 2 })
    const gathered = await client()
      .chat.completions.stream({ ...request, n: 2 })
      .finalChatCompletion()
    expect(gathered.choices.map(({ message }) => message.content)).toEqual(
      whole.choices.map(({ message }) => message.content),
    )
  })

  test('aborts a stream that it stops reading', async () => {
    const stream = await client().chat.completions.create({ ...request, stream: true })
    for await (const chunk of stream) {
      expect(chunk.object).toBe('chat.completion.chunk')
      break
    }
    expect(stream.controller.signal.aborted).toBe(true)
  })

  test('lists the models and retrieves a model', async () => {
    const ids: string[] = []
    for await (const model of client().models.list()) ids.push(model.id)
    expect(ids[0]).toBe('understudy')
    expect(ids).toContain('character/Fern')
    expect(await client().models.retrieve('understudy')).toMatchObject({ object: 'model', owned_by: 'conservatory' })
  })

  test('gets a tool call when tool_choice names the tool', async () => {
    const weather = {
      type: 'function' as const,
      function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
    }
    const completion = await client().chat.completions.create({
      ...request,
      tools: [weather],
      tool_choice: { type: 'function', function: { name: 'weather' } },
    })
    const [call] = completion.choices[0]?.message.tool_calls ?? []
    expect(completion.choices[0]?.finish_reason).toBe('tool_calls')
    expect(call?.type === 'function' && call.function.name).toBe('weather')
    expect(call?.type === 'function' && typeof JSON.parse(call.function.arguments)).toBe('object')
  })

  interface Refusal {
    readonly what: string
    readonly kind: new (...given: never) => Error
    readonly status: number
    readonly code: string
    readonly param?: string
    readonly call: () => Promise<unknown>
  }
  const complete = (more: Readonly<Record<string, unknown>>, of = client()) =>
    of.chat.completions.create({ ...request, ...more })
  const refusals: readonly Refusal[] = [
    {
      what: 'a wrong key',
      kind: OpenAI.AuthenticationError,
      status: 401,
      code: 'invalid_api_key',
      call: () => complete({}, client('sk-wrong-key-of-somebody')),
    },
    {
      what: 'a key without the scope',
      kind: OpenAI.PermissionDeniedError,
      status: 403,
      code: 'missing_scope',
      call: async () => complete({}, client(await service.makeKey('gardener', ['plants:read']))),
    },
    {
      what: 'an unknown model',
      kind: OpenAI.NotFoundError,
      status: 404,
      code: 'model_not_found',
      param: 'model',
      call: () => complete({ model: 'gpt-x' }, client(alone.key, alone)),
    },
    {
      what: 'an unknown model, streamed',
      kind: OpenAI.NotFoundError,
      status: 404,
      code: 'model_not_found',
      param: 'model',
      call: () => complete({ model: 'gpt-x', stream: true }, client(alone.key, alone)),
    },
    {
      what: 'an unknown model to describe',
      kind: OpenAI.NotFoundError,
      status: 404,
      code: 'model_not_found',
      param: 'model',
      call: () => client(alone.key, alone).models.retrieve('org/model'),
    },
    {
      what: 'too many choices',
      kind: OpenAI.BadRequestError,
      status: 400,
      code: 'invalid_field',
      param: 'n',
      call: () => complete({ n: 9 }),
    },
    {
      what: 'no messages',
      kind: OpenAI.BadRequestError,
      status: 400,
      code: 'invalid_field',
      param: 'messages',
      call: () => complete({ messages: [], stream: true }),
    },
    {
      what: 'a path that is not there',
      kind: OpenAI.NotFoundError,
      status: 404,
      code: 'unknown_route',
      call: () => client().embeddings.create({ model: 'understudy', input: 'a' }),
    },
    {
      what: 'an upstream that is asked too often',
      kind: OpenAI.RateLimitError,
      status: 429,
      code: 'rate_limit_exceeded',
      call: () => {
        upstream.answer(json({ error: { message: 'slow down' } }, 429))
        return complete({ model: 'm' })
      },
    },
    {
      what: 'an upstream that fails',
      kind: OpenAI.InternalServerError,
      status: 502,
      code: 'upstream_error',
      call: () => {
        upstream.answer(json({ error: { message: 'oops' } }, 500))
        return complete({ model: 'm', stream: true })
      },
    },
  ]
  test.each(refusals)('throws its own error for $what', async ({ kind, status, code, param = null, call }) => {
    const error: unknown = await call().then(
      () => 'it was no error',
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(kind)
    expect(error).toMatchObject({ status, code, param, requestID: expect.stringMatching(/^req_/) })
  })

  test('throws its own error for a stream that breaks off, after its partial text', async () => {
    upstream.answer(pieces([`data: ${chunkText({ content: 'One' })}\n\n`]))
    const words: string[] = []
    const reading = async () => {
      for await (const chunk of await client().chat.completions.create({ ...request, model: 'm', stream: true })) {
        words.push(chunk.choices[0]?.delta.content ?? '')
      }
    }
    await expect(reading()).rejects.toThrow(OpenAI.APIError)
    await expect(reading()).rejects.toMatchObject({ code: 'upstream_error', type: 'server_error' })
    expect(words).toEqual(['One', 'One'])
  })
})
