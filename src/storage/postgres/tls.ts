import { readFileSync } from 'node:fs'
import { isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect, getCACertificates, type TLSSocket } from 'node:tls'
import { codeOf, StorageError } from '../../errors.ts'
import { ConnectFault, ConnectionLost, isConnectionGone } from './failures.ts'

/** How a database's URL asks for TLS. */
export interface Tls {
  /** Whether a connection without TLS will do where there is none to be had (`sslmode=prefer`). */
  readonly isOptional: boolean
  /** Whether TLS begins with the connection, without asking for it in PostgreSQL's way (`sslnegotiation=direct`). */
  readonly isDirect: boolean
  /** What is trusted and checked. */
  readonly options: ConnectionOptions
}

/** What a URL says of TLS, and the URL without that. */
export interface UrlWithoutTls {
  readonly url: string
  readonly tls: Tls | undefined
}

const modes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type Mode = (typeof modes)[number]
/** Words that the client library took beside libpq's. */
const otherWords: Readonly<Record<string, Mode>> = { true: 'verify-full', false: 'disable' }
const parameters = ['sslmode', 'ssl', 'sslrootcert', 'sslnegotiation']

/** Asks a server whether it does TLS (postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL). */
const request = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Takes what a database's URL says of TLS out of it, and reads it as libpq does
 * (postgresql.org/docs/current/libpq-ssl.html). Without an `sslmode` there is no TLS, where libpq would prefer it; and
 * without an `sslrootcert` the authorities that Node trusts are trusted, and no file in a home folder.
 * @throws StorageError naming DATABASE_URL and what is wrong in it
 */
export function takeTls(url: string): UrlWithoutTls {
  const [, address = url, written = '', rest = ''] = /^([^?#]*)\?([^#]*)(.*)$/s.exec(url) ?? []
  const query = new URLSearchParams(written)
  const isSystem = query.get('sslrootcert') === 'system'
  const mode = modeOf(query.get('sslmode') ?? query.get('ssl') ?? (isSystem ? 'verify-full' : 'disable'))
  // As libpq has it: with authorities that sign for everybody, a certificate proves nothing but its name.
  if (isSystem && mode !== 'verify-full') {
    throw new StorageError(`DATABASE_URL has sslrootcert=system, which asks for sslmode=verify-full. Write that there.`)
  }
  const isDirect = query.get('sslnegotiation') === 'direct'
  const authorities = mode === 'disable' ? undefined : authoritiesOf(query.get('sslrootcert'))
  for (const name of parameters) query.delete(name)
  const left = query.size === 0 ? '' : `?${query}`
  const plain = { url: `${address}${left}${rest}`, tls: undefined }
  if (mode === 'disable') return plain
  const options = optionsOf(mode, authorities, isDirect)
  return { ...plain, tls: { isOptional: mode === 'prefer', isDirect, options } }
}

function modeOf(word: string): Mode {
  const mode = modes.find((name) => name === word) ?? otherWords[word]
  if (mode !== undefined) return mode
  throw new StorageError(`DATABASE_URL has an sslmode that is not understood; give one of ${modes.join(', ')}.`)
}

/** Certificates of authorities; undefined where the URL names none. */
function authoritiesOf(path: string | null): string | string[] | undefined {
  if (path === null || path === '') return undefined
  if (path === 'system') return [...getCACertificates('default'), ...getCACertificates('system')]
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new StorageError(
      `DATABASE_URL names a file by sslrootcert that cannot be read (${codeOf(error)}). Correct its path, or let this user read it.`,
    )
  }
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text
  throw new StorageError(
    `DATABASE_URL names a file by sslrootcert that has no certificate. Give one in PEM, which begins with -----BEGIN CERTIFICATE-----.`,
  )
}

/** What a mode checks. With a file of authorities `require` checks as `verify-ca` does, since libpq documents it so. */
function optionsOf(mode: Mode, ca: string | string[] | undefined, isDirect: boolean): ConnectionOptions {
  const isChecked = mode.startsWith('verify') || (mode === 'require' && ca !== undefined)
  return {
    rejectUnauthorized: isChecked,
    ...(ca !== undefined && { ca }),
    ...(mode !== 'verify-full' && { checkServerIdentity: () => undefined }),
    ...(isDirect && { ALPNProtocols: ['postgresql'] }),
  }
}

/**
 * Begins TLS on a connection that is being made. Who waits for it ends the connection to give it up.
 * @returns the connection with TLS, or the same one where the server does none and none is needed
 * @throws ConnectFault when there can be no such connection, and Node's error when it is lost
 */
export async function beginTls(socket: Socket, host: string, tls: Tls): Promise<Socket> {
  await heard(socket, 'connect')
  if (!tls.isDirect) {
    socket.write(request)
    const [answer] = await heard(socket, 'data')
    const letter = Buffer.isBuffer(answer) ? answer.toString('latin1') : ''
    if (letter === 'N' && tls.isOptional) return socket
    // An E begins the refusal of a server that is older than TLS, or cannot make a process for us.
    if (/^[NE]/.test(letter)) throw new ConnectFault('TLS_NOT_OFFERED')
    // Nothing may come behind it: that would be somebody in between.
    if (letter !== 'S') throw new ConnectFault('NOT_POSTGRESQL')
  }
  const secure: TLSSocket = connect({ ...tls.options, socket, host, ...(isIP(host) === 0 && { servername: host }) })
  try {
    await heard(secure, 'secureConnect')
  } catch (error) {
    throw isConnectionGone(error) ? error : new ConnectFault(codeOf(error), error)
  }
  return secure
}

/** Waits for an event. @throws what the connection fails with before, and ConnectionLost where it ends */
function heard(socket: Socket, event: string): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    const onClose = () => reject(new ConnectionLost('CONNECTION_CLOSED'))
    socket.once('error', reject).once('close', onClose)
    socket.once(event, (...values: unknown[]) => {
      socket.off('error', reject).off('close', onClose)
      resolve(values)
    })
  })
}
