/** Why a request got no answer, with a sentence for people. */
export class Failure extends Error {
  /** HTTP status; 0 where the service was not reached. */
  readonly status: number
  readonly code: string
  /** Seconds after which to try again, where the service says so. */
  readonly retryAfter: number | undefined
  /** The field of the request that is at fault, where the service names one. */
  readonly param: string | undefined

  constructor(status: number, code: string, message: string, retryAfter?: number, param?: string) {
    super(message)
    this.status = status
    this.code = code
    this.retryAfter = retryAfter
    this.param = param
  }

  /** The failure that something thrown is. */
  static of(error: unknown): Failure {
    if (error instanceof Failure) return error
    if (error instanceof DOMException && error.name === 'AbortError') return new Failure(0, 'stopped', 'Stopped.')
    return new Failure(
      0,
      'page_fault',
      `The page has a fault: ${error instanceof Error ? error.message : String(error)}`,
    )
  }

  /** The failure that a reply tells, in the shape of the plant store or of chat. */
  static async ofReply(reply: Response): Promise<Failure> {
    const seconds = Number(reply.headers.get('retry-after') ?? Number.NaN)
    const body: unknown = await reply.json().catch(() => undefined)
    const { message, code, param } = told(body)
    return new Failure(
      reply.status,
      code ?? String(reply.status),
      message ?? `The service answered with the status ${reply.status}.`,
      Number.isFinite(seconds) ? seconds : undefined,
      param,
    )
  }
}

function told(body: unknown): { readonly message?: string; readonly code?: string; readonly param?: string } {
  const error = field(body, 'error')
  const message = field(error, 'message') ?? field(body, 'message')
  const code = field(error, 'code') ?? field(error, 'type')
  const param = field(error, 'param')
  return {
    ...(typeof message === 'string' ? { message } : {}),
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof param === 'string' ? { param } : {}),
  }
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
