import { ApiError } from '../errors.ts'
import { valueIn } from '../fields.ts'
import type { ContentPart, Message } from '../openai/completion-request.ts'

/** A kind of content that a model may take. */
export type ContentKind = 'text' | 'image' | 'audio' | 'video' | 'file'

const kinds: Readonly<Record<string, ContentKind>> = {
  text: 'text',
  refusal: 'text',
  image_url: 'image',
  input_audio: 'audio',
  audio_url: 'audio',
  video_url: 'video',
  file: 'file',
}

/** The kind of a part. The parts of a model's answer that are not read have its words. */
function kindOf({ type }: ContentPart): ContentKind {
  return valueIn(kinds, type) ?? 'text'
}

/**
 * Checks that a model takes every content part of the messages. A part must not be left out silently.
 * @param taken the kinds of content that the model takes
 * @throws ApiError 400 `unsupported_input` that names the first part of another kind
 */
export function checkInput(messages: readonly Message[], model: string, taken: readonly ContentKind[]): void {
  for (const [index, { content }] of messages.entries()) {
    if (!Array.isArray(content)) continue
    const parts: readonly ContentPart[] = content
    const place = parts.findIndex((part) => !taken.includes(kindOf(part)))
    const part = parts[place]
    if (part === undefined) continue
    const param = `messages[${index}].content[${place}]`
    throw new ApiError(
      400,
      'unsupported_input',
      `The model ${JSON.stringify(model)} takes no ${kindOf(part)} (${param}). Leave it out.`,
      {
        param,
      },
    )
  }
}
