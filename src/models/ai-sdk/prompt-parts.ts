import type { LanguageModelV4FilePart, LanguageModelV4TextPart, LanguageModelV4ToolResultPart } from '@ai-sdk/provider'
import { invalidField } from '../../errors.ts'
import { field } from '../../fields.ts'
import { type ContentPart, type Message, textOf } from '../../openai/completion-request.ts'
import { filedKinds } from '../../openai/messages.ts'
import { cacheOptions, markLast } from './cache-control.ts'
import { opaqueMetadata } from './extra-content.ts'
import { audioType, fileFromBase64, fileFromUrl, type SupportedUrls, typeOfName } from './media.ts'

/**
 * A text as parts of a prompt. A blank text becomes no part, because most APIs refuse it ("text content blocks must contain
 * non-whitespace text", an answer of Claude's API).
 */
export function textParts(
  text: string,
  more: Pick<LanguageModelV4TextPart, 'providerOptions'> = {},
): LanguageModelV4TextPart[] {
  return isBlank(text) ? [] : [{ type: 'text', text, ...more }]
}

export function isBlank(text: string): boolean {
  return !/\S/.test(text)
}

/**
 * The text of `plainText`, split into parts: a part ends after each content part with `cache_control`.
 * @throws ApiError 400 for an image, a sound or a file
 */
export function plainParts(message: Message): LanguageModelV4TextPart[] {
  const whole = plainText(message)
  let parts: LanguageModelV4TextPart[] = []
  let text = ''
  for (const part of partsOf(message)) {
    text += part.text ?? ''
    const options = cacheOptions(part)
    if (!options.providerOptions) continue
    parts = isBlank(text) ? markLast(parts, part) : [...parts, { type: 'text', text, ...options }]
    text = ''
  }
  return markLast(parts.length === 0 ? textParts(whole) : [...parts, ...textParts(text)], message)
}

/**
 * The text of a message whose role takes nothing but text.
 * @throws ApiError 400 for an image, a sound or a file, which must not be left out silently
 */
export function plainText(message: Message): string {
  const other = partsOf(message).find(({ type }) => filedTypes.has(type))
  if (other)
    throw invalidField(`messages[].content[].${other.type}`, `cannot be in a message of the role ${message.role}`)
  return textOf(message)
}

/** The types of parts whose content is no text. */
const filedTypes: ReadonlySet<string> = new Set(filedKinds)

/** The refusal of an assistant message, from its field `refusal` and its content parts. */
export function refusalOf(message: Message): string {
  return [message.refusal ?? '', ...partsOf(message).map((part) => part.refusal ?? '')].join('')
}

/** Translates the content of a user message. @throws ApiError 400 for a part that cannot be sent */
export function userContent(
  message: Message,
  supported: SupportedUrls,
): (LanguageModelV4TextPart | LanguageModelV4FilePart)[] {
  if (!Array.isArray(message.content)) return textParts(message.content ?? '', cacheOptions(message))
  let parts: (LanguageModelV4TextPart | LanguageModelV4FilePart)[] = []
  for (const part of message.content) {
    if (part.type === 'text' && isBlank(part.text ?? '')) parts = markLast(parts, part)
    else if (part.type === 'text') parts.push({ type: 'text', text: part.text ?? '', ...cacheOptions(part) })
    else parts.push({ ...filePart(part, supported), ...cacheOptions(part) })
  }
  return markLast(parts, message)
}

/** Translates a `tool` message, or an older `function` message. @throws ApiError 400 for a file that cannot be sent */
export function toolOutput(message: Message): LanguageModelV4ToolResultPart['output'] {
  const files: LanguageModelV4FilePart[] = []
  // Addresses of files are refused here, because some packages would download the files.
  for (const part of partsOf(message)) if (part.type !== 'text') files.push(filePart(part, {}))
  const text = textOf(message)
  if (files.length > 0) return { type: 'content', value: [...textParts(text), ...files] }
  return { type: 'text', value: isBlank(text) ? noOutput : text }
}

/** The output of a tool that gave a blank text, or of a call that has no result in the request. */
export const noOutput = '[No output]'

/** The pictures of an assistant's message: its content parts, and the list `images` as OpenRouter sends it. */
export function ownPictures(message: Message): LanguageModelV4FilePart[] {
  const images = field(message, 'images')
  const listed = [...partsOf(message), ...(Array.isArray(images) ? images : [])]
  return listed.flatMap((part: unknown): readonly LanguageModelV4FilePart[] => {
    const url = field(field(part, 'image_url'), 'url')
    if (typeof url !== 'string') return []
    const provider = opaqueMetadata(field(part, 'extra_content'))
    const file = fileFromUrl(url, 'image', 'messages[].images[].image_url.url', {})
    return [provider ? { ...file, providerOptions: provider } : file]
  })
}

/** The most characters of a name in an id. OpenAI's names are not longer. A longer name would make more work. */
const maxNameInId = 64

/** The id that connects a `function` message with its `function_call`. OpenAI's older API has no ids for them. */
export function olderId(name: string): string {
  return `function_${name.slice(0, maxNameInId).replace(/[^A-Za-z0-9_-]/g, '_')}`
}

export function partsOf({ content }: Message): readonly ContentPart[] {
  return Array.isArray(content) ? content : []
}

/** Makes a file part from a content part of one of OpenAI's kinds. `image_url.detail` is a hint for OpenAI only. */
function filePart(part: ContentPart, supported: SupportedUrls): LanguageModelV4FilePart {
  const at = `messages[].content[].${part.type}`
  if (part.type === 'image_url' && part.image_url) {
    return fileFromUrl(part.image_url.url, 'image', `${at}.url`, supported)
  }
  if (part.type === 'input_audio' && part.input_audio) {
    return fileFromBase64(part.input_audio.data, audioType(part.input_audio.format), `${at}.data`)
  }
  if (part.type === 'file' && part.file?.file_data !== undefined) {
    const { file_data: data, filename } = part.file
    const param = `${at}.file_data`
    // Files in OpenAI's API are PDFs, unless the file name says otherwise.
    const file = /^(?:data|https?):/i.test(data)
      ? fileFromUrl(data, 'file', param, supported)
      : fileFromBase64(data, typeOfName(filename ?? '') ?? 'application/pdf', param)
    return filename === undefined ? file : { ...file, filename }
  }
  throw invalidField(at, 'cannot be sent to this model. Send text, or a file with "file_data"')
}
