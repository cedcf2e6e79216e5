import { randomUUID } from 'node:crypto'
import { unixSeconds } from '../../time.ts'
import type { Model, ModelRequest } from '../model.ts'
import type { Identity } from './reply.ts'

/** Parameters that the understudy honours, or that have no effect on its replies. */
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

/** Matches all other parameters: they are for a model that samples, or for another kind of reply. */
const ignoredParameters = { has: (name: string) => !honoured.has(name) }

/**
 * The embedded default model: a stand-in that plays any character from its card by retrieval. It has no neural network, needs no
 * other service, and gives the same answer to the same request.
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
  // These modules are loaded at the first request, because a service that only relays does not need the tokenizer and the
  // thesaurus.
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
