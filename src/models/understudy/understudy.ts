import type { Model, ModelRequest } from '../model.ts'
import type { Reply } from './reply.ts'
import { inputOf, lengthOf, paramOf } from './reply-input.ts'

/** Parameters that the understudy honours, or that have no effect on its replies. */
const honoured: ReadonlySet<string> = new Set(
  `model messages stream stream_options max_tokens max_completion_tokens n stop seed tools tool_choice response_format user
  metadata`.split(/\s+/),
)

/** Matches all other parameters: they are for a model that samples, or for another kind of reply. */
const ignoredParameters = { has: (name: string) => !honoured.has(name) }

/**
 * The embedded default model: a stand-in that plays any character from its card by retrieval. It has no neural network, needs no
 * other service, and gives the same answer to the same request.
 */
export function createUnderstudy(): Model {
  return {
    ignoredParameters,
    readsParts: true,
    async complete(request, signal) {
      const { completionOf } = await loadReplies()
      return { completion: completionOf(request.body.model, await replyTo(request, signal)) }
    },
    async *stream(request, signal) {
      const { eventsOf } = await loadReplies()
      const reply = await replyTo(request, signal)
      // The reply is made at once, so its events come in one group.
      yield eventsOf(request.body.model, reply)
    },
  }
}

let loading: Promise<typeof import('./reply.ts')> | undefined

/** Loads the modules at the first request, because a service that only relays needs neither the tokenizer nor the search. */
function loadReplies(): Promise<typeof import('./reply.ts')> {
  loading ??= import('./reply.ts')
  return loading
}

/** The most characters of texts and schemas for a reply that is made here. */
const maxInlineLength = 64 * 1024
/** The most bytes of a card that is read here. This takes at most 55 ms, once for each card, and 6 ms for an ordinary one. */
const maxInlineCard = 32 * 1024

async function replyTo(request: ModelRequest, signal: AbortSignal): Promise<Reply> {
  const { understudyJob } = await loadReplies()
  signal.throwIfAborted()
  const { work, persona, onIgnored, body } = request
  if (body.tools?.some(({ type }) => type !== 'function')) onIgnored?.('tools')
  const input = inputOf(request)
  const isHeavy = persona.card && (persona.card.isHeavy || persona.card.document.length > maxInlineCard)
  const isLarge = isHeavy || request.messagesJson || lengthOf(input) > maxInlineLength
  const reply = await work[isLarge ? 'runInPool' : 'run'](paramOf(input), understudyJob, input)
  signal.throwIfAborted()
  return reply
}
