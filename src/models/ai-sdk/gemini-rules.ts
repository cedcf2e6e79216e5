import type { LanguageModelV4Message } from '@ai-sdk/provider'
import { type Fields, fieldsIn, isFields, listIn, textIn } from '../../fields.ts'
import { noOutput } from './prompt-parts.ts'
import type { ProviderRules } from './provider-rules.ts'

/** The most stop sequences of a request (ai.google.dev/api/generate-content, GenerationConfig). */
const maxStops = 5

/** The rules of Google's Gemini API. */
export const geminiRules: ProviderRules = {
  takes: [],
  lacks: [],
  signer: 'google',
  // ai.google.dev/api/caching, FunctionDeclaration. Vertex AI takes no colon.
  toolName: { taken: /^[a-zA-Z_][\w.-]{0,63}$/, refused: /[^\w.-]/g, maxLength: 64 },
  // ai.google.dev/gemini-api/docs/image-generation, "Multi-turn image editing"
  takesOwnPictures: true,
  answers: { open: () => ({ next: chunksOf, end: () => [] }), join },
  options: () => ({}),
  async adjust(options, _modelId, ignore) {
    const stops = options.stopSequences ?? []
    if (stops.length > maxStops) ignore('stop')
    return {
      ...options,
      prompt: options.prompt.map(withResultTexts),
      ...(stops.length > maxStops ? { stopSequences: stops.slice(0, maxStops) } : {}),
    }
  },
}

/**
 * "Please ensure that the number of function response parts is equal to the number of function call parts", an answer of the API:
 * for older models, the package makes a function response only of a text.
 */
function withResultTexts(message: LanguageModelV4Message): LanguageModelV4Message {
  if (message.role !== 'tool') return message
  const content = message.content.map((part) => {
    if (part.type !== 'tool-result' || part.output.type !== 'content') return part
    const { value } = part.output
    if (value.some(({ type }) => type === 'text')) return part
    return { ...part, output: { ...part.output, value: [{ type: 'text' as const, text: noOutput }, ...value] } }
  })
  return { ...message, content }
}

/** Finish reasons of a filter that the package does not know (ai.google.dev/api/generate-content, FinishReason). */
const filters = new Set(['IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'LANGUAGE', 'MODEL_ARMOR'])

/** The texts and fields of a part that are passed on, by the name of the part's content. */
const contents = ['functionCall', 'inlineData', 'text']

/** The JSON of an event or of a whole answer with the fields that are passed on: the package refuses an answer for one odd field. */
function chunksOf(value: unknown): readonly Fields[] {
  // Without `alt=sse`, the events of a stream are a list.
  if (Array.isArray(value)) return value.flatMap(chunksOf)
  if (!isFields(value)) return []
  const { error } = value
  if (error) return [{ error: errorOf(isFields(error) ? error : { message: String(error) }) }]
  const [candidate] = listIn(value, 'candidates').filter(isFields)
  const usage = Object.entries(fieldsIn(value, 'usageMetadata')).filter(([, count]) => typeof count === 'number')
  const blockReason = textIn(fieldsIn(value, 'promptFeedback'), 'blockReason')
  const chunk = {
    ...(candidate && { candidates: [candidateOf(candidate)] }),
    ...(usage.length > 0 && { usageMetadata: Object.fromEntries(usage) }),
    ...(blockReason !== '' && { promptFeedback: { blockReason } }),
  }
  return Object.keys(chunk).length === 0 ? [] : [chunk]
}

function errorOf(error: Fields): Fields {
  const { code } = error
  return {
    code: typeof code === 'number' ? code : null,
    message: textIn(error, 'message'),
    status: textIn(error, 'status'),
  }
}

function candidateOf(candidate: Fields): Fields {
  const parts = listIn(fieldsIn(candidate, 'content'), 'parts').filter(isFields).flatMap(partOf)
  const finishReason = textIn(candidate, 'finishReason')
  return {
    content: { role: 'model', parts },
    ...(finishReason !== '' && { finishReason: filters.has(finishReason) ? 'PROHIBITED_CONTENT' : finishReason }),
  }
}

function partOf(part: Fields): readonly Fields[] {
  const name = contents.find((each) => part[each] != null)
  const thoughtSignature = textIn(part, 'thoughtSignature')
  const more = {
    ...(part['thought'] === true && { thought: true }),
    ...(thoughtSignature !== '' && { thoughtSignature }),
  }
  if (name === undefined) return thoughtSignature === '' ? [] : [{ text: '', ...more }]
  if (name === 'text') return [{ text: textIn(part, name), ...more }]
  const content = fieldsIn(part, name)
  if (name === 'inlineData') {
    return [{ inlineData: { mimeType: textIn(content, 'mimeType'), data: textIn(content, 'data') }, ...more }]
  }
  return [{ functionCall: content, ...more }]
}

/** The whole answer that the chunks of a stream make. */
function join(chunks: readonly Fields[]): Fields {
  const candidates = chunks.flatMap((chunk) => listIn(chunk, 'candidates').filter(isFields))
  if (candidates.length === 0) return Object.assign({}, ...chunks)
  const parts = candidates.flatMap(({ content }) => listIn(isFields(content) ? content : {}, 'parts'))
  return Object.assign({}, ...chunks, { candidates: [{ ...Object.assign({}, ...candidates), content: { parts } }] })
}
