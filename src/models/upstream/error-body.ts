import { field } from '../../fields.ts'

/** How much of an upstream's sentence is looked at. Characters. */
const maxMessageLength = 4000

/** What an upstream says of an error. */
export interface UpstreamErrorBody {
  /** As it came: to be cleaned before anybody sees it. */
  readonly message?: string
  readonly code?: string
  /** The class of the error, which some have in place of a code. */
  readonly type?: string
  readonly param?: string
  /** Seconds, from the body. */
  readonly retryAfter?: string
}

/** What an upstream's JSON error body says; nothing of a body in another form. */
export function readErrorBody(body: string): UpstreamErrorBody {
  let parsed: unknown
  try {
    parsed = JSON.parse(body)
  } catch {
    return {}
  }
  const value: unknown = Array.isArray(parsed) ? parsed[0] : parsed
  const error = field(value, 'error') ?? value
  const message = typeof error === 'string' ? error : field(error, 'message')
  const code = field(error, 'code')
  const type = field(error, 'type')
  const param = field(error, 'param')
  const retryAfter = retryDelay(field(error, 'details'))
  return {
    ...(typeof message === 'string' ? { message: message.slice(0, maxMessageLength) } : {}),
    ...(typeof code === 'string' && /^\w{1,64}$/.test(code) ? { code } : {}),
    ...(typeof type === 'string' ? { type } : {}),
    ...(typeof param === 'string' && /^[\w.[\]]{1,100}$/.test(param) ? { param } : {}),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  }
}

/** Google's wait, a `google.rpc.RetryInfo` among the details (`"retryDelay": "34.5s"`), in whole seconds. */
function retryDelay(details: unknown): string | undefined {
  if (!Array.isArray(details)) return undefined
  const delays = details.map((detail: unknown) => field(detail, 'retryDelay'))
  const seconds = delays.flatMap((delay) => /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(String(delay))?.[1] ?? [])[0]
  return seconds === undefined ? undefined : String(Math.ceil(Number(seconds)))
}
