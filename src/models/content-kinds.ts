import { ApiError } from '../errors.ts'
import type { ContentPart, Message } from '../openai/completion-request.ts'
import type { CandidateTraits } from './routing/candidate.ts'

const kinds = { text: 'text', refusal: 'text', image_url: 'image', input_audio: 'audio', file: 'file' } as const

/**
 * Makes sure that a model takes every kind of content that the messages have: nothing is left out silently.
 * @throws ApiError 400 `unsupported_input` that names the part
 */
export function checkInput(messages: readonly Message[], { name, input }: CandidateTraits): void {
  if (input === undefined) return
  for (const [index, { content }] of messages.entries()) {
    if (!Array.isArray(content)) continue
    const parts: readonly ContentPart[] = content
    const place = parts.findIndex(({ type }) => !input.includes(kinds[type]))
    const part = parts[place]
    if (part === undefined) continue
    const param = `messages[${index}].content[${place}]`
    throw new ApiError(
      400,
      'unsupported_input',
      `The model ${JSON.stringify(name)} takes no ${kinds[part.type]} (${param}). Leave it out.`,
      {
        param,
      },
    )
  }
}
