import type { OpenAI } from 'openai'
import { describe, expect, test } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import type { OutputItem, ResponseObject } from '../../src/openai/response.ts'
import { readMessageParts } from '../../src/responses/message-parts.ts'
import { responseReplyFormat } from '../../src/responses/reply-format.ts'
import { responseOf } from '../../src/responses/response-of.ts'

/* Chunks become typed events in order, each with an `event:` line. */

type Event = OpenAI.Responses.ResponseStreamEvent

// The compiler checks that our output items have the official client's type.
const asOfficial = (item: OutputItem) => item satisfies OpenAI.Responses.ResponseOutputItem

interface Delta {
  readonly content?: string
  readonly refusal?: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly object[]
}

const call = (index: number, more: object) => ({ tool_calls: [{ index, ...more }] })
const named = (index: number, id: string) =>
  call(index, { id, type: 'function', function: { name: `f${index}`, arguments: '' } })

const request = { model: 'm', input: 'Hello', temperature: 0.5, instructions: 'Be brief.' }

function speak(
  deltas: readonly Delta[],
  reason: string | null = 'stop',
  error?: ApiError,
  asked = request,
  model = 'm-1',
) {
  const kept: OutputItem[] = []
  const format = responseReplyFormat(
    asked,
    { ignored: [], nameOf: (name) => name, translateError: (thrown) => thrown },
    (output) => void kept.push(...output),
  )
  const chunks = deltas.map((delta) => ({ index: 0, delta, logprobs: null, finish_reason: null }))
  format.prepare?.()
  const pieces: unknown[] = []
  const write = (events: unknown) => void pieces.push(events)
  const say = (choice: object) => {
    const text = JSON.stringify({
      id: 'x',
      object: 'chat.completion.chunk',
      created: 7,
      model,
      choices: [choice],
    })
    write(format.chunk({ chunk: JSON.parse(text) }))
  }
  for (const chunk of chunks) say(chunk)
  if (reason !== null) say({ index: 0, delta: {}, logprobs: null, finish_reason: reason })
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
  const end = { id: 'x', object: 'chat.completion.chunk' as const, created: 7, model: 'm-1', choices: [], usage }
  write(error ? format.failure(error) : format.end(end))
  const events = pieces
    .join('')
    .split('\n\n')
    .filter((event) => event !== '')
  const read = events.map((event) => {
    const [type = '', data = ''] = event.split('\n')
    const parsed: Event = JSON.parse(data.slice('data: '.length))
    expect(type).toBe(`event: ${parsed.type}`)
    return parsed
  })
  expect(read.map(({ sequence_number: number }) => number)).toEqual(read.map((_event, index) => index))
  return { events: read, types: read.map(({ type }) => type.replace('response.', '')), kept }
}

function last(events: readonly Event[]): OpenAI.Responses.Response {
  const event = events.at(-1)
  if (!event || !('response' in event)) throw new Error('the last event has no response')
  return event.response
}

const begun = ['created', 'in_progress']
const textItem = (deltas: number) => [
  'output_item.added',
  'content_part.added',
  ...Array<string>(deltas).fill('output_text.delta'),
  'output_text.done',
  'content_part.done',
  'output_item.done',
]

describe('the events of a response', () => {
  test.each(['stop', null])('repeat long instructions (%s)', (reason) => {
    const instructions = 'Sei kürzer.\n'.repeat(100_000)
    const failure = reason === null ? new ApiError(502, 'upstream_error', 'No.') : undefined
    const { events } = speak([{ content: 'Wat' }], reason, failure, { ...request, instructions })
    const responses = events.flatMap((event) => ('response' in event ? [event.response] : []))
    expect(responses.map((response) => response.instructions === instructions)).toEqual([true, true, true])
    expect(Object.keys(last(events))).toEqual(Object.keys(last(speak([{ content: 'Wat' }]).events)))
  })

  test('do not repeat an id or a name of megabytes', () => {
    const long = 'x'.repeat(2_200_000)
    const named = (fields: object) => call(0, { id: 'a', function: { name: 'f', arguments: '' }, ...fields })
    expect(() => speak([named({ id: long })])).toThrow('more than 2097152 characters')
    expect(() => speak([named({ function: { name: long, arguments: '' } })])).toThrow('more than 2097152 characters')
    // An id that is repeated in each delta counts once.
    expect(speak(Array(50).fill(named({ id: long.slice(0, 50_000) }))).types.at(-1)).toBe('completed')
    expect(last(speak([{ content: 'Wat' }], 'stop', undefined, request, long).events).model).toBe('m')
  })

  test('do not have arguments that are an object and too long', () => {
    const given = { text: 'x'.repeat(3_000_000) }
    const message = { tool_calls: [{ id: 'a', function: { name: 'f', arguments: given } }] }
    expect(() => readMessageParts(message)).toThrow('more than 2097152 characters')
  })

  test.each<{ what: string; deltas: readonly Delta[]; types: readonly string[]; output: readonly object[] }>([
    {
      what: 'a text in pieces',
      deltas: [{ content: 'Water ' }, { content: 'it.' }],
      types: textItem(2),
      output: [{ type: 'message', status: 'completed', content: [{ type: 'output_text', text: 'Water it.' }] }],
    },
    {
      what: 'nothing at all',
      deltas: [],
      types: textItem(0),
      output: [{ type: 'message', content: [{ type: 'output_text', text: '' }] }],
    },
    {
      what: 'a refusal after a text',
      deltas: [{ content: 'Hm.' }, { refusal: 'No.' }],
      types: [
        ...textItem(1).slice(0, -1),
        'content_part.added',
        'refusal.delta',
        'refusal.done',
        'content_part.done',
        'output_item.done',
      ],
      output: [
        {
          content: [
            { type: 'output_text', text: 'Hm.' },
            { type: 'refusal', refusal: 'No.' },
          ],
        },
      ],
    },
    {
      what: 'a thought before a text',
      deltas: [{ reasoning_content: 'Dry?' }, { content: 'Yes.' }],
      types: [
        'output_item.added',
        'content_part.added',
        'reasoning_text.delta',
        'reasoning_text.done',
        'content_part.done',
        ...textItem(1).slice(0, 3),
        // The signatures of a provider come last.
        'output_item.done',
        ...textItem(1).slice(3),
      ],
      output: [
        { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Dry?' }] },
        { type: 'message', content: [{ type: 'output_text', text: 'Yes.' }] },
      ],
    },
    {
      what: 'two calls whose pieces alternate, after a text',
      deltas: [
        { content: 'Let me see.' },
        named(0, 'call_a'),
        named(1, 'call_b'),
        call(0, { function: { arguments: '{"a":' } }),
        call(1, { function: { arguments: '{}' } }),
        call(0, { function: { arguments: '1}' } }),
      ],
      types: [
        ...textItem(1),
        'output_item.added',
        'output_item.added',
        'function_call_arguments.delta',
        'function_call_arguments.delta',
        'function_call_arguments.delta',
        'function_call_arguments.done',
        'output_item.done',
        'function_call_arguments.done',
        'output_item.done',
      ],
      output: [
        { type: 'message' },
        { type: 'function_call', call_id: 'call_a', name: 'f0', arguments: '{"a":1}', status: 'completed' },
        { type: 'function_call', call_id: 'call_b', name: 'f1', arguments: '{}', status: 'completed' },
      ],
    },
    {
      what: 'a call of a custom tool',
      deltas: [
        call(0, { id: 'call_a', type: 'custom', custom: { name: 'sql', input: 'SEL' } }),
        call(0, { custom: { input: 'ECT 1' } }),
      ],
      types: [
        'output_item.added',
        'custom_tool_call_input.delta',
        'custom_tool_call_input.delta',
        'custom_tool_call_input.done',
        'output_item.done',
      ],
      output: [{ type: 'custom_tool_call', call_id: 'call_a', name: 'sql', input: 'SELECT 1', status: 'completed' }],
    },
    {
      what: 'two calls in one piece without numbers, one of them named later',
      deltas: [
        {
          tool_calls: [
            { id: 'a', function: { name: 'f', arguments: '{}' } },
            { id: 'b', function: { arguments: { a: 1 } } },
          ],
        },
        call(1, { function: { name: 'g' } }),
      ],
      types: [
        'output_item.added',
        'function_call_arguments.delta',
        'output_item.added',
        'function_call_arguments.delta',
        'function_call_arguments.done',
        'output_item.done',
        'function_call_arguments.done',
        'output_item.done',
      ],
      output: [
        { name: 'f', arguments: '{}' },
        { name: 'g', arguments: '{"a":1}' },
      ],
    },
  ])('have the expected types for $what', ({ deltas, types, output }) => {
    const spoken = speak(deltas)
    expect(spoken.types).toEqual([...begun, ...types, 'completed'])
    const response = last(spoken.events)
    expect(response).toMatchObject({
      status: 'completed',
      output,
      temperature: 0.5,
      instructions: 'Be brief.',
      created_at: 7,
    })
    expect(response.usage).toMatchObject({ input_tokens: 1, output_tokens: 2, total_tokens: 3 })
    expect(spoken.kept).toEqual(response.output)
    // Every added item has a done event, with the item of the response.
    const done = spoken.events.flatMap((event) => (event.type === 'response.output_item.done' ? [event.item] : []))
    expect(done).toEqual(response.output)
    expect(spoken.kept.map(asOfficial)).toHaveLength(output.length)
  })

  test.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ])('the finish reason %s makes an incomplete response', (reason, said) => {
    const { types, events } = speak([{ content: 'Wat' }], reason)
    expect(types.at(-1)).toBe('incomplete')
    expect(last(events)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: said },
      output: [{ status: 'incomplete' }],
    })
  })

  test('a failure has the partial output and an error, and completes no call', () => {
    const error = new ApiError(502, 'upstream_error', 'The model broke off.')
    const { types, events, kept } = speak(
      [{ content: 'Wat' }, named(0, 'call_a'), call(0, { function: { arguments: '{"a' } })],
      null,
      error,
    )
    expect(types.at(-1)).toBe('failed')
    expect(types.filter((type) => type.includes('arguments.done'))).toEqual([])
    expect(last(events)).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: 'The model broke off.' },
      usage: null,
      output: [
        { type: 'message', content: [{ text: 'Wat' }] },
        { arguments: '{"a', status: 'incomplete' },
      ],
    })
    expect(kept).toEqual([])
  })

  test('a failure within a text leaves no gap in the sequence numbers', () => {
    const error = new ApiError(502, 'upstream_error', 'The model broke off.')
    const { types, events } = speak([{ content: 'Wat' }], null, error)
    expect(types).toEqual([...begun, ...textItem(1).slice(0, 3), 'failed'])
    expect(last(events)).toMatchObject({ output: [{ status: 'incomplete', content: [{ text: 'Wat' }] }] })
  })

  test('a failure before any chunk still begins a response', () => {
    const { types } = speak([], null, new ApiError(504, 'upstream_timeout', 'Too late.'))
    expect(types).toEqual([...begun, 'failed'])
  })
})

test('a response has the official type, except fields of the request and error codes', () => {
  type Ours = Omit<ResponseObject, 'error' | 'tools' | 'tool_choice' | 'reasoning' | 'text' | 'metadata' | 'usage'>
  const usageOf = ({ usage }: ResponseObject) => usage satisfies OpenAI.Responses.ResponseUsage | null
  const official = (response: Ours) => response satisfies Partial<OpenAI.Responses.Response>
  const said = { id: 'resp_1', created: 7, model: 'm', output: [] }
  const response = responseOf({ model: 'm', input: 'Hello' }, said)
  expect(official(response).status).toBe('in_progress')
  expect(usageOf(response)).toBeNull()
})
