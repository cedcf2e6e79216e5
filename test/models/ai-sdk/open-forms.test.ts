import { describe, expect, test } from 'vitest'
import type { CompletionRequest } from '../../../src/openai/completion-request.ts'
import { asked, complete, failureFrom, gardenTools, vendorForThisTest } from '../../support/ai-sdk.ts'
import { replay } from '../../support/replay.ts'

/** The body that Claude's server gets for a request, and the ignored parameters that are reported. */
async function sent(more: Partial<CompletionRequest>) {
  const ignored: string[] = []
  const { model, upstream } = await vendorForThisTest('anthropic', [replay('anthropic/text.json')])
  await complete(
    model,
    asked(more, (name) => ignored.push(name)),
  )
  return { body: upstream.calls[0]?.body ?? {}, ignored }
}

const shell = { type: 'custom', custom: { name: 'shell' } } as const
const moisture = { type: 'function', function: { name: 'soil_moisture' } } as const

describe('parameters of OpenAI without a counterpart in Claude’s API', () => {
  test('max_tokens -1 means no bound, and is not sent', async () => {
    const [free, endless] = [await sent({}), await sent({ max_tokens: -1 })]
    expect(endless.body['max_tokens']).toBe(free.body['max_tokens'])
    expect(endless.ignored).toEqual([])
  })

  test('custom tools are left out, and reported as ignored', async () => {
    const { body, ignored } = await sent({ tools: [...(gardenTools ?? []), shell] })
    expect(body['tools']).toMatchObject([{ name: 'soil_moisture' }, { name: 'all_beds' }])
    expect(ignored).toEqual(['tools'])
  })

  test('a custom tool that must be called is refused', async () => {
    const { model, upstream } = await vendorForThisTest('anthropic', [])
    const failure = await failureFrom(complete(model, asked({ tools: [shell], tool_choice: shell })))
    expect(failure).toMatchObject({ status: 400, param: 'tool_choice' })
    expect(upstream.calls).toEqual([])
  })

  test('with allowed_tools, all other tools are left out', async () => {
    const { body, ignored } = await sent({
      tools: gardenTools,
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [moisture] } },
    })
    expect(body['tools']).toMatchObject([{ name: 'soil_moisture' }])
    expect(body['tool_choice']).toMatchObject({ type: 'any' })
    expect(ignored).toEqual([])
  })

  test('an earlier call of a custom tool keeps its input', async () => {
    const { body } = await sent({
      messages: [
        { role: 'user', content: 'List.' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'call_1', type: 'custom', custom: { name: 'shell', input: 'ls' } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'pots' },
      ],
    })
    expect(body['messages']).toMatchObject([
      {},
      { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'shell', input: { input: 'ls' } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'pots' }] },
    ])
  })
})
