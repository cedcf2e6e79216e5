import { field } from '../../fields.ts'

/** The most characters of an upstream's message to search. The time of a search may grow with the square of this number. */
export const maxSearchedLength = 4000

/** The fields of an upstream's error body. */
export interface UpstreamErrorBody {
  /**
   * The upstream's message. It may contain keys and addresses, so it must be cleaned before a caller or the log gets it. The
   * message is not shortened before that, because a cut could split a key, and a part of a key is not recognized.
   */
  readonly message?: string
  readonly code?: string
  /** The class of the error, which some upstreams send instead of a code. */
  readonly type?: string
  readonly param?: string
  /** Whole seconds after which to retry. */
  readonly retryAfter?: string
}

/** Reads an upstream's JSON error body, or a parsed error. For a body in another form, all fields are absent. */
export function readErrorBody(body: string | { readonly error: unknown }): UpstreamErrorBody {
  let parsed: unknown = body
  try {
    if (typeof body === 'string') parsed = JSON.parse(body)
  } catch {
    // A page or a cut JSON is no sentence.
    const text = String(body).trim()
    return text === '' || /^[<{[]/.test(text) ? {} : { message: text }
  }
  const value: unknown = Array.isArray(parsed) ? parsed[0] : parsed
  const error = field(value, 'error') ?? value
  const message = sentenceIn(error)
  const code = field(error, 'code')
  const type = field(error, 'type')
  const param = field(error, 'param')
  const retryAfter = retryDelay(field(error, 'details'))
  return {
    ...(message === undefined ? {} : { message }),
    ...(typeof code === 'string' && /^\w{1,64}$/.test(code) ? { code } : {}),
    ...(typeof type === 'string' ? { type } : {}),
    ...(typeof param === 'string' && /^[\w.[\]]{1,100}$/.test(param) ? { param } : {}),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  }
}

/** The fields that have the sentence of an error. FastAPI has `detail`, with a text or a list of faults. */
const sentenceNames = [
  'message',
  'msg',
  'detail',
  'error',
  'errors',
  'error_message',
  'error_msg',
  'description',
  'title',
]
const maxDepth = 5

/** The sentence of an error, or the sentences of its faults. */
function sentenceIn(error: unknown, depth = 0): string | undefined {
  if (typeof error === 'string') return error === '' ? undefined : error
  if (depth > maxDepth || typeof error !== 'object' || error === null) return undefined
  if (Array.isArray(error)) {
    const sentences = error.slice(0, maxFaults).flatMap((fault) => sentenceIn(fault, depth + 1) ?? [])
    return sentences.length === 0 ? undefined : sentences.join('; ')
  }
  for (const name of sentenceNames) {
    const sentence = sentenceIn(field(error, name), depth + 1)
    if (sentence === undefined) continue
    const place = field(error, 'loc')
    return Array.isArray(place) && depth > 0 ? `${place.filter(isPlace).join('.')}: ${sentence}` : sentence
  }
  return undefined
}

/** The most faults of a list that are read. */
const maxFaults = 20

function isPlace(part: unknown): boolean {
  return typeof part === 'string' || typeof part === 'number'
}

/** The delay of Google's `google.rpc.RetryInfo` in `details` (`"retryDelay": "34.5s"`), rounded up to whole seconds. */
function retryDelay(details: unknown): string | undefined {
  if (!Array.isArray(details)) return undefined
  const delays = details.map((detail: unknown) => field(detail, 'retryDelay'))
  const texts = delays.filter((delay) => typeof delay === 'string')
  const seconds = texts.flatMap((delay) => /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(delay)?.[1] ?? [])[0]
  return seconds === undefined ? undefined : String(Math.ceil(Number(seconds)))
}
