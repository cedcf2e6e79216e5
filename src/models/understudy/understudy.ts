import { randomUUID } from 'node:crypto'
import type { Model, ModelRequest } from '../model.ts'
import type { Identity } from './objects.ts'

/** What only a sampling model, or another kind of reply, could honour. */
const ignoredParameters: ReadonlySet<string> = new Set([
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'top_logprobs',
  'reasoning_effort',
  'verbosity',
  'parallel_tool_calls',
  'functions',
  'function_call',
  'modalities',
  'audio',
  'prediction',
  'web_search_options',
  'service_tier',
  'store',
])

/**
 * The embedded default: a stand-in that plays any character from its card by retrieval. It is no neural network, needs
 * nothing from outside, and says the same to the same request.
 */
export function createUnderstudy(): Model {
  return {
    ignoredParameters,
    async complete(request, signal) {
      const { reply, objects } = await play(request, signal)
      return { completion: objects.completionOf(identityOf(request), reply.choices, reply.usage) }
    },
    async *stream(request, signal) {
      const { reply, objects, tokenizer } = await play(request, signal)
      for (const event of objects.eventsOf(identityOf(request), reply.choices, reply.usage, tokenizer)) {
        signal.throwIfAborted()
        yield [event]
      }
    },
  }
}

async function play(request: ModelRequest, signal: AbortSignal) {
  signal.throwIfAborted()
  // Loaded when first needed: a service that only relays does without the tokenizer and the thesaurus.
  const [{ playReply }, objects, { loadTokenizer }] = await Promise.all([
    import('./reply.ts'),
    import('./objects.ts'),
    import('../tokenizer.ts'),
  ])
  const tokenizer = await loadTokenizer()
  const reply = await playReply(request, tokenizer, signal)
  signal.throwIfAborted()
  return { reply, objects, tokenizer }
}

function identityOf({ body }: ModelRequest): Identity {
  return {
    id: `chatcmpl-${randomUUID().replaceAll('-', '')}`,
    created: Math.floor(Date.now() / 1000),
    model: body.model,
  }
}
