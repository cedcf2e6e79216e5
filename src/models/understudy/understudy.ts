import { randomUUID } from 'node:crypto'
import { unixSeconds } from '../../time.ts'
import type { Model, ModelRequest } from '../model.ts'
import type { Identity } from './reply.ts'

/** What it does as it is told, or what asks for nothing that a reply could show. */
const honoured: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'n',
  'stop',
  'seed',
  'tools',
  'tool_choice',
  'response_format',
  'user',
  'metadata',
])

/** Everything else is for a sampling model, or for another kind of reply. */
const ignoredParameters = { has: (name: string) => !honoured.has(name) }

/**
 * The embedded default: a stand-in that plays any character from its card by retrieval. It is no neural network, needs
 * nothing from outside, and says the same to the same request.
 */
export function createUnderstudy(): Model {
  return {
    ignoredParameters,
    async complete(request, signal) {
      const { reply, completionOf } = await loadAndReply(request, signal)
      return { completion: completionOf(identityOf(request), reply.choices, reply.usage) }
    },
    async *stream(request, signal) {
      const { reply, eventsOf, wordsOfChoices, tokenizer } = await loadAndReply(request, signal)
      const words = await request.work.run('messages', wordsOfChoices(reply.choices, tokenizer))
      for (const event of eventsOf(identityOf(request), reply, words)) {
        signal.throwIfAborted()
        yield [event]
      }
    },
  }
}

async function loadAndReply(request: ModelRequest, signal: AbortSignal) {
  signal.throwIfAborted()
  // Loaded when first needed: a service that only relays does without the tokenizer and the thesaurus.
  const [{ makeReply, completionOf, eventsOf, wordsOfChoices }, { loadTokenizer }] = await Promise.all([
    import('./reply.ts'),
    import('../tokenizer.ts'),
  ])
  const tokenizer = await loadTokenizer()
  const reply = await makeReply(request, tokenizer, signal)
  signal.throwIfAborted()
  return { reply, completionOf, eventsOf, wordsOfChoices, tokenizer }
}

function identityOf({ body }: ModelRequest): Identity {
  return {
    id: `chatcmpl-${randomUUID().replaceAll('-', '')}`,
    created: unixSeconds(),
    model: body.model,
  }
}
