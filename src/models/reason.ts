import type { ApiError } from '../errors.ts'

/** The details of an upstream's failure that the operator may read. */
interface ReasonDetails {
  /** The HTTP status of the upstream's answer, or of the error in a 200. */
  readonly status?: number | undefined
  /** The code of the network error (`ECONNREFUSED`, `CERT_HAS_EXPIRED` …), or the upstream's own code if it is a known one. */
  readonly code?: string | undefined
  /** The upstream's own message, without keys, addresses and markup. It may quote the conversation, so the log never has it. */
  readonly said?: string | undefined
  /** Host and port of the upstream. */
  readonly host?: string | undefined
}

/**
 * The reason why a model failed: the cause of an `ApiError`, for the log and the operator's commands. The public fields of this
 * class become fields of the log line. Only `sentence`, for commands, has the upstream's message.
 */
export class UpstreamReason extends Error {
  readonly status: number | undefined
  readonly code: string | undefined
  readonly host: string | undefined
  /** The model's name, as `x-model` shows it. */
  readonly model: string | undefined
  readonly #said: string | undefined

  constructor(message: string, { status, code, said, host }: ReasonDetails = {}, model?: string) {
    super(message)
    this.name = 'UpstreamReason'
    this.status = status
    this.code = code
    this.#said = said
    this.host = host
    this.model = model
    // A stack trace does not explain an upstream's failure, and would fill most of the log line.
    this.stack = `UpstreamReason: ${message}`
  }

  /** A copy with the model's name. @param host the host in the settings, for a reason that has none */
  of(model: string, host: string | undefined): UpstreamReason {
    const { message, status, code } = this
    return new UpstreamReason(message, { status, code, said: this.#said, host: this.host ?? host }, model)
  }

  /** The details as one sentence; undefined if only the host is known. */
  get sentence(): string | undefined {
    const { host = 'Its service', status, code } = this
    const said = this.#said
    if (status !== undefined) return `${host} answered ${status}${said ? `: ${said.replace(/\.$/, '')}` : ''}.`
    if (code === undefined) return said
    const refusal = /\bproxy (?:response|authentication required) \((\d{3})\)/i.exec(this.message)?.[1]
    const words = refusal === undefined ? sentenceOf(code) : `the proxy answered ${refusal}`
    return `${host}: ${code}${words === undefined ? '' : `, ${words}`}.`
  }
}

/** Adds the model and its host to the reason of an upstream's failure. Other errors are returned unchanged. */
export function withModel(
  error: ApiError,
  { name, host }: { readonly name: string; readonly host?: string },
): ApiError {
  const { cause } = error
  const reason = cause instanceof UpstreamReason ? cause : undefined
  if (!reason && !error.code.startsWith('upstream_')) return error
  const known = reason ?? new UpstreamReason(cause instanceof Error ? cause.message : error.message)
  return error.withCause(known.of(name, host))
}

const words: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'nothing listens there'],
  [/^ENOTFOUND$/, 'there is no host with this name'],
  [/^EAI_AGAIN$/, 'the name cannot be looked up now'],
  [/^E(?:HOST|NET)UNREACH$/, 'there is no route to it'],
  [/TIMEOUT|TIMEDOUT/, 'it was not reached in time'],
  [/^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET)$/, 'it closed the connection'],
  [/^(?:UND_ERR_ABORTED|UND_ERR_PRX_TLS)$/, 'the proxy does not connect to it'],
  // These codes are in Node's documentation, "X509 certificate error codes", and in OpenSSL's.
  [/CERT|CRL|UNABLE_TO|PATH_LENGTH|INVALID_(?:CA|PURPOSE)|HOSTNAME_MISMATCH/, 'its certificate is not accepted'],
  [/^(?:ERR_SSL|EPROTO)/, 'it does not speak valid TLS'],
]

function sentenceOf(code: string): string | undefined {
  return words.find(([pattern]) => pattern.test(code))?.[1]
}
