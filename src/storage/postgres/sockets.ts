import { isIP, Socket } from 'node:net'

/** Milliseconds that a connection may say nothing after a deadline has passed, before it is ended. */
const grace = 1000

interface Host {
  readonly host: string
  readonly port: number
}

/**
 * Makes the sockets of a database's connections. The client library's own way with several hosts tries them in a
 * tight loop without ever giving up, and cannot end one connection that has no answer.
 */
export class Sockets {
  readonly #hosts: readonly Host[]
  readonly #open = new Set<Socket>()
  #current = 0
  #looking: NodeJS.Timeout | undefined

  /** @param place the hosts of a URL, such as `one:5432,two:5432` */
  constructor(place: string) {
    this.#hosts = place.split(',').map(hostOf)
  }

  /** Connects to the host that served last; once a connection has ended, the next host is tried. */
  open(): Socket {
    const index = this.#current
    const { host, port } = this.#hosts[index] ?? { host: 'localhost', port: 5432 }
    const socket = new WatchedSocket(() => {
      this.#open.delete(socket)
      if (this.#current === index) this.#current = (index + 1) % this.#hosts.length
    })
    // Names are looked up anew each time: a failover may be a change in the DNS.
    socket.setNoDelay(true).connect({ host, port })
    // Which name a certificate is to have, as the client library reads it.
    if (isIP(host) === 0) Object.assign(socket, { host })
    this.#open.add(socket)
    return socket
  }

  /** Ends all connections: their server only reads now, and another one writes. */
  endAll(): void {
    for (const socket of this.#open) socket.destroy()
  }

  /**
   * Ends the connections from which nothing comes now, as those whose server has gone without a word, or whose commit
   * waits for a standby that is dead: they must not use up the pool. Idle ones go with them, which costs nothing.
   * @param then is done when they have ended
   */
  endSilent(then: () => void): void {
    if (this.#looking) return
    const before = [...this.#open].map((socket) => ({ socket, read: socket.bytesRead }))
    this.#looking = setTimeout(() => {
      this.#looking = undefined
      for (const { socket, read } of before) if (socket.bytesRead === read) socket.destroy()
      then()
    }, grace)
    this.#looking.unref()
  }
}

/** Tells when it is over. The client library takes listeners for that away where it begins TLS. */
class WatchedSocket extends Socket {
  readonly #onEnd: () => void

  constructor(onEnd: () => void) {
    super()
    this.#onEnd = onEnd
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#onEnd()
    super._destroy(error, callback)
  }
}

/** Reads `host:port`, `[address]:port`, or a host alone. */
function hostOf(text: string): Host {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(text) ?? []
  return { host: bracketed ?? (plain || 'localhost'), port: Number(port ?? 5432) }
}
