import type { IncomingMessage, ServerResponse as NodeResponse } from 'node:http'

/**
 * The state of a service that is about to stop: it still serves, and clients and balancers should move to other replicas. Each
 * reply closes its connection: a client with an open connection learns of the drain in no other way.
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
  // An import of `node:http` would read all its names and so load Node's WebSocket: 30 ms of every start.
  const { ServerResponse } = process.getBuiltinModule('node:http')
  return class<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
    override writeHead(...values: readonly unknown[]): this {
      if (mustClose()) this.shouldKeepAlive = false
      Reflect.apply(super.writeHead, this, values)
      return this
    }
  }
}
