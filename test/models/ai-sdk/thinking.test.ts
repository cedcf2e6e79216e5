import { expect, test } from 'vitest'
import type { AiSdkSettings } from '../../../src/models/configuration/settings.ts'
import type { CompletionRequest } from '../../../src/openai/completion-request.ts'
import { asked, complete, vendorForThisTest } from '../../support/ai-sdk.ts'
import { replay } from '../../support/replay.ts'

async function sent(more: Partial<CompletionRequest>, settings: Partial<AiSdkSettings>) {
  const ignored: string[] = []
  const { model, upstream } = await vendorForThisTest('anthropic', [replay('anthropic/text.json')], settings)
  await complete(
    model,
    asked(more, (name) => ignored.push(name)),
  )
  const { max_tokens, thinking } = upstream.calls[0]?.body ?? {}
  return { max_tokens, thinking, ignored }
}

const enabled = (budget_tokens: number) => ({ type: 'enabled', budget_tokens })

// Models up to 4.5 have a thinking budget within max_tokens. Later models decide themselves, also within max_tokens.
test.each<[string, string, Partial<CompletionRequest>, unknown]>([
  ['claude-sonnet-4-5', 'low', { max_tokens: 20_000 }, enabled(2000)],
  ['claude-sonnet-4-5', 'medium', { max_tokens: 20_000 }, enabled(6000)],
  ['claude-opus-4-1', 'high', { max_completion_tokens: 10_000, max_tokens: 50 }, enabled(6000)],
  ['claude-haiku-4-5-20251001', 'max', { max_tokens: 4000 }, enabled(3800)],
  ['claude-haiku-4-5', 'minimal', { max_tokens: 2000 }, enabled(1024)],
  // A gateway may have a name of its own for a model.
  ['green/thinker', 'high', { max_tokens: 5000 }, enabled(3000)],
  ['claude-opus-4-6', 'high', { max_tokens: 500 }, { type: 'adaptive', display: 'summarized' }],
  ['claude-sonnet-5', 'low', { max_tokens: 500 }, { type: 'adaptive', display: 'summarized' }],
  ['claude-sonnet-4-5', 'none', { max_tokens: 500 }, { type: 'disabled' }],
])('%s with the effort %s thinks within the reply of %j', async (model, reasoning_effort, bounds, thinking) => {
  const found = await sent({ reasoning_effort, ...bounds }, { model })
  const max_tokens = bounds.max_completion_tokens ?? bounds.max_tokens
  expect(found).toEqual({ max_tokens, thinking, ignored: [] })
})

test.each([1, 500, 1024, 1077])(
  'a reply of %i tokens has no room for thinking, and reasoning_effort is reported as ignored',
  async (max_tokens) => {
    expect(await sent({ reasoning_effort: 'low', max_tokens }, { model: 'claude-sonnet-4-5' })).toEqual({
      max_tokens,
      thinking: undefined,
      ignored: ['reasoning_effort'],
    })
  },
)

test('with max_tokens above the maximum of the model, the budget is a share of that maximum', async () => {
  const found = await sent({ reasoning_effort: 'high', max_tokens: 200_000 }, { model: 'claude-sonnet-4-5' })
  expect(found).toMatchObject({ max_tokens: 64_000, thinking: enabled(38_400) })
})

test('without max_tokens, and with max_tokens -1, the package sets max_tokens and the budget', async () => {
  const free = await sent({ reasoning_effort: 'low' }, { model: 'claude-sonnet-4-5' })
  expect(free).toMatchObject({ max_tokens: 64_000, thinking: enabled(6400) })
  expect(await sent({ reasoning_effort: 'low', max_tokens: -1 }, { model: 'claude-sonnet-4-5' })).toEqual(free)
})

test('the operator’s own settings of thinking win', async () => {
  const providerOptions = { anthropic: { thinking: { type: 'disabled' } } }
  const found = await sent(
    { reasoning_effort: 'high', max_tokens: 9000 },
    { model: 'claude-sonnet-4-5', providerOptions },
  )
  expect(found).toMatchObject({ max_tokens: 9000, thinking: { type: 'disabled' } })
})
