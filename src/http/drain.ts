import type { IncomingMessage, ServerResponse as NodeResponse } from 'node:http'

/**
 * The state of a service that is about to stop. The service still answers requests, but clients and balancers should move to
 * other replicas. Each reply closes its connection, because otherwise a client would keep its open connection.
 */
export class Drain {
  #hasBegun = false
  /** The class of all replies. Once the drain has begun, every reply that writes its headers adds `Connection: close`. */
  readonly ServerResponse = responsesThatClose(() => this.#hasBegun)

  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Begins the drain; it cannot be undone. */
  begin(): void {
    this.#hasBegun = true
  }
}

function responsesThatClose(mustClose: () => boolean): typeof NodeResponse {
  // An import of `node:http` would read all names of that module, and so load Node's WebSocket. That takes 30 ms of every start.
  const { ServerResponse } = process.getBuiltinModule('node:http')
  return class<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
    override writeHead(...values: readonly unknown[]): this {
      if (mustClose()) this.shouldKeepAlive = false
      Reflect.apply(super.writeHead, this, values)
      return this
    }
  }
}
