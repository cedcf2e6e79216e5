import { describe, expect, test } from 'vitest'
import { toCallOptions } from '../../../src/models/ai-sdk/call-options.ts'
import { toPrompt } from '../../../src/models/ai-sdk/prompt.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { asked, pixel, toolTurn } from '../../support/ai-sdk.ts'

describe('the prompt', () => {
  const prompt = (messages: Message[]) =>
    toPrompt(messages, {}).map(({ role, content }) => [
      role,
      typeof content === 'string'
        ? content
        : content.map((part) => ('text' in part ? part.text : part.type)).join(' | '),
    ])

  // test/characters/requirements.md 4.1: a system message at a depth stays at its depth.
  test('system messages are at the top, or stay in their place', () => {
    expect(
      prompt([
        { role: 'system', content: 'You are Fern.' },
        { role: 'system', content: '' },
        { role: 'developer', content: [{ type: 'text', text: 'Be short.' }] },
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'Hi!' },
        { role: 'system', content: 'It rains now.' },
        { role: 'user', content: 'How are you?' },
        { role: 'system', content: 'Answer as Fern.' },
      ]),
    ).toEqual([
      ['system', 'You are Fern.\n\nBe short.'],
      ['user', 'Hello'],
      ['assistant', 'Hi!'],
      ['user', '[System note]\nIt rains now. | How are you? | [System note]\nAnswer as Fern.'],
    ])
  })

  // test/characters/requirements.md 5: example utterances are turns of their own if the upstream has no `name` for messages.
  test('example dialogues are turns, and their end is marked', () => {
    expect(
      prompt([
        { role: 'system', content: 'You are Fern.' },
        { role: 'system', content: '[Example Chat]' },
        { role: 'system', name: 'example_user', content: 'Thirsty?' },
        { role: 'system', name: 'example_assistant', content: 'Always.' },
        { role: 'system', content: '[Example Chat]' },
        { role: 'system', name: 'example_assistant', content: 'Light, please.' },
        { role: 'assistant', content: 'Welcome to my pot.' },
        { role: 'user', content: 'Hello' },
      ]),
    ).toEqual([
      ['system', 'You are Fern.'],
      ['user', '[Example Chat] | Thirsty?'],
      ['assistant', 'Always.'],
      ['user', '[Example Chat]'],
      ['assistant', 'Light, please.'],
      ['user', '[Start a new chat]'],
      ['assistant', 'Welcome to my pot.'],
      ['user', 'Hello'],
    ])
  })

  test('begins with the user, even if the assistant begins', () => {
    expect(prompt([{ role: 'assistant', content: 'Welcome.' }])).toEqual([
      ['user', '[Start a new chat]'],
      ['assistant', 'Welcome.'],
    ])
    expect(prompt([{ role: 'system', content: 'Speak.' }])).toEqual([
      ['system', 'Speak.'],
      ['user', '[Start a new chat]'],
    ])
  })

  test('has no neighbours of one role, and no empty message', () => {
    expect(
      prompt([
        { role: 'user', content: 'One' },
        { role: 'user', content: '' },
        { role: 'user', content: [{ type: 'text', text: 'two' }] },
        { role: 'assistant', content: null, refusal: 'No.' },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'Well.' },
            { type: 'refusal', refusal: 'Not that.' },
          ],
        },
      ]),
    ).toEqual([
      ['user', 'One | two'],
      ['assistant', 'No. | Well. | Not that.'],
    ])
  })

  test('a tool call and its results are not separated', () => {
    const [question, call, ...results] = toolTurn
    const note: Message = { role: 'system', content: 'It rains now.' }
    const messages = [question, call, note, results[0], note, results[1], { role: 'user' as const, content: 'And?' }]
    const turns = toPrompt(
      messages.filter((message) => message !== undefined),
      {},
    )
    expect(turns.map(({ role, content }) => [role, content.length])).toEqual([
      ['user', 1],
      ['assistant', 2],
      ['tool', 2],
      ['user', 3],
    ])
  })

  test.each(['system', 'assistant'] as const)(
    'an image in a message of the role %s is refused, not left out',
    (role) => {
      const content: Message['content'] = [{ type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }]
      expect(() => toPrompt([{ role, content }], {})).toThrow(/image_url" cannot be in a message of the role/)
    },
  )

  test("keeps OpenAI's older function calls together", () => {
    const call = { name: 'water', arguments: '{"bed":1}' }
    const messages: Message[] = [
      { role: 'user', content: 'Water it.' },
      Object.assign({ role: 'assistant' as const, content: null }, { function_call: call }),
      { role: 'function', name: 'water', content: 'done' },
    ]
    expect(toPrompt(messages, {}).slice(1)).toMatchObject([
      { role: 'assistant', content: [{ toolCallId: 'function_water', toolName: 'water', input: { bed: 1 } }] },
      { role: 'tool', content: [{ toolCallId: 'function_water', toolName: 'water', output: { value: 'done' } }] },
    ])
  })

  describe('is bounded', () => {
    const turn = (more: object): Message[] => [
      { role: 'user', content: 'Go.' },
      Object.assign({ role: 'assistant' as const, content: null }, more),
    ]
    const given = `{"a":[${Array(10_000).fill(1).join()}]}`
    const call = (index: number) => ({ id: `c${index}`, type: 'function', function: { name: 'f', arguments: given } })

    test('at most 400,000 values in the arguments of all calls', () => {
      const message = turn({ tool_calls: Array.from({ length: 40 }, (_, index) => call(index)) })
      expect(() => toPrompt(message, {})).toThrow(
        'has too many values: at most 100000, 20000 in one object, and 400000 in all calls',
      )
    })

    test('a long name of an older call', () => {
      const name = 'f'.repeat(1_000_000)
      const [, written] = toPrompt(turn({ function_call: { name, arguments: '{}' } }), {})
      expect(written).toMatchObject({ content: [{ toolName: name, toolCallId: `function_${name.slice(0, 64)}` }] })
    })
  })

  test('parameters that are null are not sent', () => {
    const options = toCallOptions(
      { ...asked().body, temperature: null, stop: null, seed: null, tools: null, tool_choice: 'auto', user: null },
      {},
      {},
    )
    expect(Object.keys(options)).toEqual(['prompt'])
  })
})
