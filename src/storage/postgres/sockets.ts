import { Socket } from 'node:net'
import { ConnectFault, ConnectionLost } from './failures.ts'
import { beginTls, type Tls } from './tls.ts'

/** Milliseconds that a connection may say nothing after a deadline has passed, or its host was left, before it is ended. */
const grace = 1000
/** Milliseconds in which a connection with TLS is made. */
const tlsTime = 2000
/** The first letters of what a server says: it asks for a password, refuses, warns, or knows another version. */
const greetings = /^[RENv]/
/** The parameter of a greeting that tells whether the server only reads, with the byte behind its name. */
const roleParameter = 'in_hot_standby\0'
/** The message ReadyForQuery, with which a greeting ends (postgresql.org/docs/current/protocol-message-formats.html). */
const greetingEnd = Buffer.from('Z\0\0\0\x05I', 'latin1')

interface Host {
  readonly host: string
  readonly port: number
}

/**
 * Makes the sockets of a database's connections. The client library's own way with several hosts tries them in a
 * tight loop without ever giving up, and cannot end one connection that has no answer. Its TLS goes on where the server does
 * none, and reads no `sslrootcert`.
 */
export class Sockets {
  readonly #hosts: readonly Host[]
  readonly #tls: Tls | undefined
  readonly #open = new Set<WatchedSocket>()
  /** Those of the open ones on which nothing has been answered yet, as far as is known. */
  readonly #unproven = new Set<WatchedSocket>()
  #current = 0
  /** Hosts that were left within the last second. */
  readonly #leaving = new Set<number>()
  #looking: NodeJS.Timeout | undefined

  /**
   * @param place the hosts of a URL, such as `one:5432,two:5432`
   * @param tls what the URL asks of TLS; nothing without it
   */
  constructor(place: string, tls?: Tls) {
    this.#hosts = place.split(',').map(hostOf)
    this.#tls = tls
  }

  /** The ports of their own ends. */
  get ports(): readonly number[] {
    return [...this.#open].flatMap(({ localPort }) => localPort ?? [])
  }

  /**
   * Connects to the host that served last. The next one is tried once a connection has ended that never served: one
   * that did may have been idle, or waited for a standby, and the next host may be that standby, which does not answer.
   */
  open(): Socket | Promise<Socket> {
    const index = this.#current
    const tls = this.#tls
    return tls === undefined ? this.#openPlain(index) : this.#openWithTls(index, tls)
  }

  #openPlain(index: number): Socket {
    const socket = withoutRole(withReason(this.#connect(index)))
    // The client library would wait for the rest of a message that is as long as four letters of another protocol say.
    socket.once('data', (data) => {
      if (!greetings.test(data.toString('latin1', 0, 1))) socket.destroy(new ConnectFault('NOT_POSTGRESQL'))
    })
    return socket
  }

  async #openWithTls(index: number, tls: Tls): Promise<Socket> {
    const socket = this.#connect(index)
    const tooLong = setTimeout(() => socket.destroy(new ConnectionLost('CONNECT_TIMEOUT')), tlsTime)
    try {
      return withoutRole(withReason(await beginTls(socket, this.#hostAt(index).host, tls)))
    } catch (error) {
      socket.destroy()
      // As libpq does where the server has TLS, and it cannot be agreed on.
      if (tls.isOptional && error instanceof ConnectFault && error.code !== 'NOT_POSTGRESQL')
        return this.#openPlain(index)
      return failed(error)
    } finally {
      clearTimeout(tooLong)
    }
  }

  #connect(index: number): Socket {
    const socket = new WatchedSocket(index, () => {
      this.#open.delete(socket)
      if (this.#unproven.delete(socket) && this.#current === index) this.#leave(index)
    })
    // Below TLS nobody else listens.
    socket.on('error', () => {})
    // Names are looked up anew each time: a failover may be a change in the DNS.
    socket.setNoDelay(true).connect({ ...this.#hostAt(index) })
    this.#open.add(socket)
    this.#unproven.add(socket)
    return socket
  }

  /**
   * Connects to the next host from now on. Other connections to the one that is left may wait for the same lost server,
   * as a pooler lets them: those that never served and stay silent are ended, unless that host is the current one again.
   */
  #leave(index: number): void {
    this.#current = (index + 1) % this.#hosts.length
    if (this.#leaving.has(index)) return
    this.#leaving.add(index)
    const others = this.#silentSince(index)
    setTimeout(() => {
      this.#leaving.delete(index)
      if (this.#current === index) return
      for (const socket of others()) if (this.#unproven.has(socket)) socket.destroy()
    }, grace).unref()
  }

  /** @returns gives those of the connections of now, to one host or to all, from which nothing has come since */
  #silentSince(host?: number): () => readonly WatchedSocket[] {
    const before = [...this.#open]
      .filter(({ index }) => host === undefined || index === host)
      .map((socket) => ({ socket, read: socket.bytesRead }))
    return () => before.flatMap(({ socket, read }) => (socket.bytesRead === read ? socket : []))
  }

  /** Hears that something was answered: by the one host that there are connections to, or nobody knows by which. */
  served(): void {
    if (this.#unproven.size === 0 || new Set([...this.#open].map(({ index }) => index)).size > 1) return
    for (const socket of this.#unproven) if (socket.bytesRead > 0) this.#unproven.delete(socket)
  }

  #hostAt(index: number): Host {
    return this.#hosts[index] ?? { host: 'localhost', port: 5432 }
  }

  /** Ends all connections: their server only reads now, and another one writes. */
  endAll(): void {
    for (const socket of this.#open) {
      this.#unproven.add(socket)
      socket.destroy()
    }
  }

  /**
   * Ends the connections from which nothing comes now, as those whose server has gone without a word, or whose commit
   * waits for a standby that is dead: they must not use up the pool. Idle ones go with them, which costs nothing.
   * @param isStill whether that is still to be done when the time is over
   */
  endSilent(isStill: () => boolean): void {
    if (this.#looking) return
    const silent = this.#silentSince()
    this.#looking = setTimeout(() => {
      this.#looking = undefined
      if (!isStill()) return
      for (const socket of silent()) socket.destroy()
    }, grace)
    this.#looking.unref()
  }
}

/** Tells when it is over. */
class WatchedSocket extends Socket {
  /** Of its host. */
  readonly index: number
  readonly #onEnd: () => void

  constructor(index: number, onEnd: () => void) {
    super()
    this.index = index
    this.#onEnd = onEnd
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#onEnd()
    super._destroy(error, callback)
  }
}

/**
 * Gives each end of a connection a reason: where one ends without before it has greeted, the client library makes the
 * next at once, and so on without an end. The library's own listeners come after this one.
 */
function withReason<T extends Socket>(socket: T): T {
  socket.once('close', () => socket.emit('error', new ConnectionLost('CONNECTION_CLOSED')))
  // Should the library have left it by then.
  socket.on('error', () => {})
  return socket
}

/**
 * Keeps from the client library what a greeting tells of the server's role, so that it asks the server itself: PgBouncer
 * greets with what its server first told it, and calls a promoted one a standby from then on. The name of the parameter is
 * changed where it stands; the library's listener comes after this one.
 */
function withoutRole<T extends Socket>(socket: T): T {
  const rename = (data: Buffer): void => {
    const at = data.indexOf(roleParameter)
    if (at >= 0) data.write('-', at)
    if (data.subarray(-greetingEnd.length).equals(greetingEnd)) socket.off('data', rename)
  }
  return socket.on('data', rename)
}

/** A connection that fails as soon as somebody listens: the library forgets one whose making is rejected, and has one less. */
function failed(reason: unknown): Socket {
  const socket = new Socket()
  setImmediate(() => socket.destroy(reason instanceof Error ? reason : new Error(String(reason))))
  return socket
}

/** Reads `host:port`, `[address]:port`, or a host alone. */
function hostOf(text: string): Host {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(text) ?? []
  return { host: bracketed ?? (plain || 'localhost'), port: Number(port ?? 5432) }
}
