import { Socket } from 'node:net'
import { ConnectFault, ConnectionLost } from './failures.ts'
import { beginTls, type Tls } from './tls.ts'

/** How long a connection may stay silent before it is ended: after a timeout, or after a change to another host. */
const graceMs = 1000
/** How long it may take to connect with TLS. */
const tlsTimeoutMs = 2000
/** The first letter of a server's first message: R is about the login, E refuses, N warns, v has another protocol version. */
const greetings = /^[RENv]/
/** The name of the parameter in a greeting that says whether the server is read-only, with the zero byte after the name. */
const roleParameter = 'in_hot_standby\0'
/** The message ReadyForQuery, with which a greeting ends (postgresql.org/docs/current/protocol-message-formats.html). */
const greetingEnd = Buffer.from('Z\0\0\0\x05I', 'latin1')

interface Host {
  readonly host: string
  readonly port: number
}

/**
 * Opens the sockets of a database's connections. The client library's own sockets have three faults: with several hosts the
 * library tries the hosts in a tight loop for ever; it cannot end a single connection that gets no answer; and its TLS falls back
 * to plain text when the server has no TLS, and ignores `sslrootcert`.
 */
export class Sockets {
  readonly #hosts: readonly Host[]
  readonly #tls: Tls | undefined
  readonly #open = new Set<WatchedSocket>()
  /** The sockets without a known answer to a query. */
  readonly #unproven = new Set<WatchedSocket>()
  #current = 0
  /** Indexes of the hosts that were left within the last second. */
  readonly #leaving = new Set<number>()
  #silenceTimer: NodeJS.Timeout | undefined

  /**
   * @param place the hosts of a URL, such as `one:5432,two:5432`
   * @param tls the TLS parameters of the URL; by default plain text
   */
  constructor(place: string, tls?: Tls) {
    this.#hosts = place.split(',').map(hostOf)
    this.#tls = tls
  }

  /** The local ports of the open connections. */
  get ports(): readonly number[] {
    return [...this.#open].flatMap(({ localPort }) => localPort ?? [])
  }

  /**
   * Connects to the current host. At the start, this is the first host. When a connection to the current host ends without ever
   * having had an answer, the next host becomes the current host. The end of a connection that had an answer changes nothing: the
   * connection may have been idle or waiting for a standby. The next host may be that standby, which does not answer.
   */
  open(): Socket | Promise<Socket> {
    const index = this.#current
    const tls = this.#tls
    return tls === undefined ? this.#openPlain(index) : this.#openWithTls(index, tls)
  }

  #openPlain(index: number): Socket {
    const socket = hideRole(closeWithError(this.#connect(index)))
    // The client library would take four letters of another protocol as a length, and wait for so many bytes.
    socket.once('data', (data) => {
      if (!greetings.test(data.toString('latin1', 0, 1))) socket.destroy(new ConnectFault('NOT_POSTGRESQL'))
    })
    return socket
  }

  async #openWithTls(index: number, tls: Tls): Promise<Socket> {
    const socket = this.#connect(index)
    const timeout = setTimeout(() => socket.destroy(new ConnectionLost('CONNECT_TIMEOUT')), tlsTimeoutMs)
    try {
      return hideRole(closeWithError(await beginTls(socket, this.#hostAt(index).host, tls)))
    } catch (error) {
      socket.destroy()
      // libpq does the same with `prefer` when the handshake fails.
      if (tls.isOptional && error instanceof ConnectFault && error.code !== 'NOT_POSTGRESQL')
        return this.#openPlain(index)
      return failedSocket(error)
    } finally {
      clearTimeout(timeout)
    }
  }

  #connect(index: number): Socket {
    const socket = new WatchedSocket(index, () => {
      this.#open.delete(socket)
      if (this.#unproven.delete(socket) && this.#current === index) this.#leave(index)
    })
    // With TLS, this socket has no other listener for errors.
    socket.on('error', () => {})
    // Node looks up the name at each connect: a failover may be a change in the DNS.
    socket.setNoDelay(true).connect({ ...this.#hostAt(index) })
    this.#open.add(socket)
    this.#unproven.add(socket)
    return socket
  }

  /**
   * Connects to the next host from now on. If the old host is a pooler, other connections to it may wait for the same lost
   * server. So after the grace period, the connections to the old host that never had an answer and stayed silent are ended,
   * unless the old host is the current host again.
   */
  #leave(index: number): void {
    this.#current = (index + 1) % this.#hosts.length
    if (this.#leaving.has(index)) return
    this.#leaving.add(index)
    const silent = this.#silentSince(index)
    setTimeout(() => {
      this.#leaving.delete(index)
      if (this.#current === index) return
      for (const socket of silent()) if (this.#unproven.has(socket)) socket.destroy()
    }, graceMs).unref()
  }

  /**
   * Notes the connections that are open now.
   * @param host the index of the only host whose connections count; by default all
   * @returns a function that returns those of the connections that have received no bytes since
   */
  #silentSince(host?: number): () => readonly WatchedSocket[] {
    const before = [...this.#open]
      .filter(({ index }) => host === undefined || index === host)
      .map((socket) => ({ socket, read: socket.bytesRead }))
    return () => before.flatMap(({ socket, read }) => (socket.bytesRead === read ? socket : []))
  }

  /** Records that a query was answered. While connections to several hosts are open, this does nothing: the host is unknown. */
  markServed(): void {
    if (this.#unproven.size === 0 || new Set([...this.#open].map(({ index }) => index)).size > 1) return
    for (const socket of this.#unproven) if (socket.bytesRead > 0) this.#unproven.delete(socket)
  }

  #hostAt(index: number): Host {
    return this.#hosts[index] ?? { host: 'localhost', port: 5432 }
  }

  /**
   * Ends all connections, for example when their server is read-only now and another server writes. Then the next host becomes
   * the current host.
   */
  endAll(): void {
    for (const socket of this.#open) {
      this.#unproven.add(socket)
      socket.destroy()
    }
  }

  /**
   * Ends the connections that receive no bytes during the grace period. Their server may be lost, or their commit may wait for
   * a dead standby, and such connections must not use up the pool. Idle connections are ended too, and opened again when needed.
   * @param isNeeded whether the connections should still be ended after the grace period
   */
  endSilent(isNeeded: () => boolean): void {
    if (this.#silenceTimer) return
    const silent = this.#silentSince()
    this.#silenceTimer = setTimeout(() => {
      this.#silenceTimer = undefined
      if (!isNeeded()) return
      for (const socket of silent()) socket.destroy()
    }, graceMs)
    this.#silenceTimer.unref()
  }
}

/** A socket that reports its end. */
class WatchedSocket extends Socket {
  /** The index of the socket's host. */
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
 * Makes a socket emit an error whenever it closes. Otherwise, when a connection closes before the greeting and without an error,
 * the client library connects again immediately, in an endless loop. The library's own listeners run after this listener.
 */
function closeWithError<T extends Socket>(socket: T): T {
  socket.once('close', () => socket.emit('error', new ConnectionLost('CONNECTION_CLOSED')))
  // The library may have removed its listener for errors before the socket closes.
  socket.on('error', () => {})
  return socket
}

/**
 * Hides the server's role in a greeting from the client library, so that the library asks the server for its role. PgBouncer
 * repeats the first greeting of its server for ever, even if that server was a standby then and has been promoted since. The name
 * of the parameter is changed in place, before the library's listener gets the bytes.
 */
function hideRole<T extends Socket>(socket: T): T {
  const rename = (data: Buffer): void => {
    const at = data.indexOf(roleParameter)
    if (at >= 0) data.write('-', at)
    if (data.subarray(-greetingEnd.length).equals(greetingEnd)) socket.off('data', rename)
  }
  return socket.on('data', rename)
}

/** A socket that fails in the next turn. If `socket()` rejected instead, the library's pool would lose that connection. */
function failedSocket(reason: unknown): Socket {
  const socket = new Socket()
  setImmediate(() => socket.destroy(reason instanceof Error ? reason : new Error(String(reason))))
  return socket
}

/** Reads `host:port`, `[address]:port`, or a host alone. */
function hostOf(text: string): Host {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(text) ?? []
  return { host: bracketed ?? (plain || 'localhost'), port: Number(port ?? 5432) }
}
