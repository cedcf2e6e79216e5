/** The reason why a request failed, with a sentence for the reader. */
export class Failure extends Error {
  /** The HTTP status; 0 without a reply. */
  readonly status: number
  readonly code: string
  /** Seconds after which to try again, if the service sent them. */
  readonly retryAfter: number | undefined
  /** The faulty field of the request, if the service named one. */
  readonly param: string | undefined

  constructor(status: number, code: string, message: string, retryAfter?: number, param?: string) {
    super(message)
    this.status = status
    this.code = code
    this.retryAfter = retryAfter
    this.param = param
  }

  /** Makes a failure of any thrown value. */
  static of(error: unknown): Failure {
    if (error instanceof Failure) return error
    if (error instanceof DOMException && error.name === 'AbortError') return new Failure(0, 'stopped', 'Stopped.')
    return new Failure(
      0,
      'page_fault',
      `The page has a fault: ${error instanceof Error ? error.message : String(error)}`,
    )
  }

  /**
   * Reads the failure from the error body of a reply. The error bodies of plants have another shape than the error bodies of
   * other routes.
   */
  static async ofReply(reply: Response): Promise<Failure> {
    const seconds = Number(reply.headers.get('retry-after') ?? Number.NaN)
    const body: unknown = await reply.json().catch(() => undefined)
    const error = field(body, 'error')
    return new Failure(
      reply.status,
      textIn(error, 'code') ?? textIn(error, 'type') ?? String(reply.status),
      textIn(error, 'message') ?? textIn(body, 'message') ?? `The service answered with the status ${reply.status}.`,
      Number.isFinite(seconds) ? seconds : undefined,
      textIn(error, 'param'),
    )
  }
}

function textIn(value: unknown, name: string): string | undefined {
  const text = field(value, name)
  return typeof text === 'string' ? text : undefined
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
