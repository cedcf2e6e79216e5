import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toPrompt } from '../../src/models/ai-sdk/prompt.ts'
import { mergeMessages } from '../../src/models/merge-messages.ts'
import type { ContentPart, Message } from '../../src/openai/completion-request.ts'

/** Counts the reads of a list's items. */
function countingReads<T>(items: readonly T[]): { readonly items: readonly T[]; readonly reads: () => number } {
  let reads = 0
  const get = (target: readonly T[], name: string | symbol, receiver: unknown): unknown => {
    if (typeof name === 'string' && /^\d+$/.test(name)) reads++
    return Reflect.get(target, name, receiver)
  }
  return { items: new Proxy(items, { get }), reads: () => reads }
}

describe('the translation of a conversation for the AI SDK', () => {
  test.each([
    [['user', 'system']],
    [['system']],
    [['user', 'assistant']],
    [['assistant', 'system', 'system']],
  ] as const)('takes twice the work for twice the messages: %s', (roles) => {
    const readsOf = (count: number) => {
      const messages = Array.from({ length: count }, (_, index): Message => {
        return { role: roles[index % roles.length] ?? 'user', content: `Line ${index}` }
      })
      const { items, reads } = countingReads(messages)
      toPrompt(items, {})
      return reads()
    }
    expect(readsOf(600)).toBeLessThan(2.2 * readsOf(300))
  })

  test('takes a message with more parts than a function call may have arguments', () => {
    const content = Array.from({ length: 200_000 }, (): ContentPart => ({ type: 'text', text: 'a' }))
    const prompt = toPrompt(
      [
        { role: 'user', content: 'Hi' },
        { role: 'user', content },
      ],
      {},
    )
    expect(prompt[0]?.content).toHaveLength(200_001)
  })
})

describe('mergeMessages', () => {
  const opening: Message = { role: 'user', content: '[Start a new chat]' }
  const isSystem = ({ role }: Message) => role === 'system' || role === 'developer'
  const isPlain = (message: Message) =>
    !['tool', 'function'].includes(message.role) &&
    !message.tool_calls?.length &&
    (message.name == null || isSystem(message))
  const joined = (...texts: readonly (string | null | undefined)[]) => texts.filter((text) => text).join('\n\n')
  const contentOf = ({ content, refusal }: Message): NonNullable<Message['content']> => {
    if (!Array.isArray(content)) return joined(content, refusal)
    return refusal ? [...content, { type: 'refusal', refusal }] : content
  }
  const partsOf = (content: ReturnType<typeof contentOf>): readonly ContentPart[] => {
    if (typeof content !== 'string') return content
    return content === '' ? [] : [{ type: 'text', text: content }]
  }
  const pair = ({ name: _name, refusal, ...first }: Message, second: Message): Message => {
    const [one, other] = [contentOf({ ...first, refusal }), contentOf(second)]
    const areTexts = typeof one === 'string' && typeof other === 'string'
    return { ...first, content: areTexts ? joined(one, other) : [...partsOf(one), ...partsOf(other)] }
  }
  /** Merges message by message. `mergeMessages` must give the same result. */
  const oneByOne = (messages: readonly Message[]) =>
    messages.reduce<readonly Message[]>((merged, message) => {
      const last = merged.at(-1)
      if (message.role === 'assistant' && merged.every(isSystem)) return merged.concat(opening, message)
      if (last && last.role === message.role && isPlain(last) && isPlain(message))
        return merged.slice(0, -1).concat(pair(last, message))
      return merged.concat(message)
    }, [])

  const part = fc.record({ type: fc.constant('text' as const), text: fc.string({ maxLength: 3 }) })
  const content = fc.oneof(
    fc.string({ maxLength: 3 }),
    fc.array(part, { minLength: 1, maxLength: 2 }),
    fc.constant(null),
  )
  const role = fc.constantFrom<Message['role']>('system', 'developer', 'user', 'assistant', 'tool')
  const name = fc.option(fc.constantFrom('Ada', 'Moss'), { nil: undefined, freq: 8 })
  const refusal = fc.option(fc.string({ maxLength: 3 }), { nil: undefined, freq: 3 })
  const message = fc.record({ role, content, name, refusal }).map(({ name, refusal, ...rest }): Message => {
    return { ...rest, ...(name === undefined ? {} : { name }), ...(refusal === undefined ? {} : { refusal }) }
  })

  test('joins several neighbours as if it joined them pair by pair', () => {
    fc.assert(
      fc.property(fc.array(message, { maxLength: 12 }), (messages) => {
        expect(mergeMessages(messages)).toEqual(oneByOne(messages))
      }),
      { numRuns: 500 },
    )
  })
})
