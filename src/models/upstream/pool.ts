import { Client, type Dispatcher, Pool } from 'undici'
import { errorsOfReusedConnections } from './reused-connections.ts'

/** A client that counts the requests on its connection, to know whether a broken connection had been reused. */
class CountingClient extends Client {
  #requests = 0

  constructor(origin: string | URL, options: object) {
    super(origin, options)
    this.on('connect', () => {
      this.#requests = 1
    })
    this.on('disconnect', (_origin, _targets, error) => {
      if (this.#requests > 1) errorsOfReusedConnections.add(error)
      this.#requests = 0
    })
  }

  override dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#requests++
    return super.dispatch(request, handler)
  }
}

/** Opens the connections to one origin. `retryOnClosedConnection` recognizes the errors of reused connections. */
export function openPool(origin: string | URL, options: Pool.Options): Pool {
  return new Pool(origin, { ...options, factory: (url, clientOptions) => new CountingClient(url, clientOptions) })
}
