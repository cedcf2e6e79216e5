import { connect as connectTo, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** The changes that a proxy makes to the traffic with PostgreSQL. */
export interface Meddling {
  /** A startup setting in the URL that the proxy refuses, as PgBouncer does. */
  readonly refusedSetting?: string
  /** Whether the proxy leaves a connection with `refusedSetting` without an answer now, instead of refusing it. */
  isSilent?(): boolean
  /** SQL that the proxy runs before a statement of the client. The client does not see it. */
  before?(statement: string): string | undefined
  /** Whether the client gets a wrong backend process id, as behind a pooler. */
  readonly hidesPid?: boolean
  /** Whether the proxy drops all messages of clients now. For the client this looks like a pooler that waits for its server. */
  isWaiting?(): boolean
  /** Whether the greeting says that the server is a standby, as PgBouncer still does after a promotion. */
  readonly tellsOfStandby?: boolean
  /**
   * Whether the proxy closes the connection at the beginning of a transaction, as PgBouncer does with `pool_mode = statement`.
   */
  readonly refusesTransactions?: boolean
}

/** A proxy between a client and PostgreSQL. */
export interface PostgresProxy {
  /** The URL of the database through the proxy. */
  readonly url: string
  /** The names of the prepared statements that clients have made since the last call. */
  takeNames(): readonly string[]
}

/**
 * Starts a proxy in front of a database, and stops it at the end of the running test. It reads the protocol without TLS
 * (postgresql.org/docs/current/protocol-message-formats.html).
 */
export async function proxyForThisTest(databaseUrl: string, meddling: Meddling): Promise<PostgresProxy> {
  const url = new URL(databaseUrl)
  const { hostname, port } = url
  const names: string[] = []
  const sockets = new Set<Socket>()
  const proxy = createServer((client) => {
    const server = connectTo(Number(port), hostname)
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    meddle(client, server, meddling, names)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => proxy.close(resolve))
  })
  const address = proxy.address()
  url.port = String(typeof address === 'object' ? address?.port : '')
  return { url: url.href, takeNames: () => names.splice(0) }
}

function meddle(client: Socket, server: Socket, meddling: Meddling, names: string[]): void {
  /** Who caused each expected ReadyForQuery, in order. The first ReadyForQuery ends the startup of the client. */
  const owners: ('client' | 'proxy')[] = ['client']
  const statements = new Map<string, string>()
  let isBetween = true
  const fromClient = framesOf(true, (frame, isStart) => {
    if (meddling.isWaiting?.()) return
    if (isStart) {
      if (meddling.refusedSetting === undefined || !frame.includes(`${meddling.refusedSetting}\0`)) server.write(frame)
      else if (!meddling.isSilent?.()) client.end(failure(`unsupported startup parameter: ${meddling.refusedSetting}`))
      return
    }
    const type = frame.toString('latin1', 0, 1)
    const [first = '', second = ''] = frame.toString('utf8', 5).split('\0')
    if (type === 'P') statements.set(first, second)
    if (type === 'P' && first !== '') names.push(first)
    const statement = { Q: first, P: second, B: statements.get(second) }[type]
    const sql = isBetween && statement !== undefined ? meddling.before?.(statement) : undefined
    if (sql !== undefined) {
      server.write(message('Q', `${sql}\0`))
      owners.push('proxy')
    }
    isBetween = type === 'Q' || type === 'S'
    if (isBetween) owners.push('client')
    server.write(frame)
  })
  const fromServer = framesOf(false, (frame) => {
    const type = frame.toString('latin1', 0, 1)
    const owner = owners[0]
    if (type === 'Z') owners.shift()
    if (owner === 'proxy') return
    if (type === 'K' && meddling.hidesPid) frame.writeUInt32BE(1, 5)
    const isRole = type === 'S' && frame.includes('in_hot_standby\0')
    if (isRole && meddling.tellsOfStandby) {
      client.write(message('S', 'in_hot_standby\0on\0'))
      return
    }
    const isInTransaction = type === 'Z' && frame.toString('latin1', 5) === 'T'
    if (isInTransaction && meddling.refusesTransactions) {
      client.end(failure('transaction blocks not allowed in statement pooling mode'))
    } else client.write(frame)
  })
  client.on('data', fromClient)
  server.on('data', fromServer)
}

/** Splits a stream into the protocol's messages. The client's first message has no type before its length. */
function framesOf(beginsWithStart: boolean, onFrame: (frame: Buffer, isStart: boolean) => void) {
  let isStart = beginsWithStart
  let rest = Buffer.alloc(0)
  return (data: Buffer) => {
    rest = Buffer.concat([rest, data])
    for (;;) {
      const letter = isStart ? 0 : 1
      if (rest.length < letter + 4) return
      const length = letter + rest.readUInt32BE(letter)
      if (rest.length < length) return
      const frame = rest.subarray(0, length)
      rest = rest.subarray(length)
      onFrame(frame, isStart)
      isStart = false
    }
  }
}

function message(type: string, body: string): Buffer {
  const bytes = Buffer.from(body)
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeUInt32BE(bytes.length + 4, 1)
  return Buffer.concat([head, bytes])
}

/** The message of an error with the SQLSTATE of poolers. It ends the connection. */
function failure(text: string): Buffer {
  return message('E', `SFATAL\0C08P01\0M${text}\0\0`)
}
