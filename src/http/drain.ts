import type { IncomingMessage, ServerResponse as NodeResponse } from 'node:http'

/**
 * Whether the service is about to stop: it still serves, and tells clients and balancers to go elsewhere. Each reply ends its
 * connection, since a client that keeps one learns in no other way.
 */
export class Drain {
  #hasBegun = false
  /** Node's replies, which say `Connection: close` once it has begun: those of before it too, whose head is not written yet. */
  readonly ServerResponse = responsesThatClose(() => this.#hasBegun)

  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Begins, for good. */
  begin(): void {
    this.#hasBegun = true
  }
}

function responsesThatClose(mustClose: () => boolean): typeof NodeResponse {
  // Not by an import, which asks for all names of `node:http`, and with them for Node's WebSocket: 30 ms of every start.
  const { ServerResponse } = process.getBuiltinModule('node:http')
  return class<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
    override writeHead(...values: readonly unknown[]): this {
      if (mustClose()) this.shouldKeepAlive = false
      Reflect.apply(super.writeHead, this, values)
      return this
    }
  }
}
