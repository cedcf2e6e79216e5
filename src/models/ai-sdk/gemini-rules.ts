import type { LanguageModelV4Message } from '@ai-sdk/provider'
import { noOutput } from './prompt-parts.ts'
import type { ProviderRules } from './provider-rules.ts'

/** The most stop sequences of a request (ai.google.dev/api/generate-content, GenerationConfig). */
const maxStops = 5

/** The rules of Google's Gemini API. */
export const geminiRules: ProviderRules = {
  takes: [],
  lacks: [],
  // ai.google.dev/api/caching, FunctionDeclaration. Vertex AI takes no colon.
  toolName: { taken: /^[a-zA-Z_][\w.-]{0,63}$/, refused: /[^\w.-]/g, maxLength: 64 },
  // ai.google.dev/gemini-api/docs/image-generation, "Multi-turn image editing"
  takesOwnPictures: true,
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
