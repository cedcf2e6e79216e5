import { Client, type Dispatcher, Pool } from 'undici'

/** A client that counts the requests on its connection, to know whether a broken connection had been reused. */
class CountingClient extends Client {
  #requests = 0

  constructor(origin: string | URL, options: object, noteReused: (error: Error) => void) {
    super(origin, options)
    this.on('connect', () => {
      this.#requests = 1
    })
    this.on('disconnect', (_origin, _targets, error) => {
      if (this.#requests > 1) noteReused(error)
      this.#requests = 0
    })
  }

  override dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#requests++
    return super.dispatch(request, handler)
  }
}

/** Returns a function that opens connections to one origin. @param noteReused gets the errors of reused connections */
export function poolOpener(noteReused: (error: Error) => void) {
  return (origin: string | URL, options: Pool.Options): Pool =>
    new Pool(origin, { ...options, factory: (url, more) => new CountingClient(url, more, noteReused) })
}
