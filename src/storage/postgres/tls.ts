import { readFileSync } from 'node:fs'
import { isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect, getCACertificates, type TLSSocket } from 'node:tls'
import { codeOf, StorageError } from '../../errors.ts'
import { valueIn } from '../../fields.ts'
import { ConnectFault, ConnectionLost, isConnectionGone } from './failures.ts'

/** The TLS that a database's URL asks for. */
export interface Tls {
  /** Whether to connect without TLS when the server has no TLS (`sslmode=prefer`). */
  readonly isOptional: boolean
  /** Whether TLS begins immediately, without PostgreSQL's SSLRequest (`sslnegotiation=direct`). */
  readonly isDirect: boolean
  /** The trusted authorities and the checks. */
  readonly options: ConnectionOptions
}

const modes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
type Mode = (typeof modes)[number]
/** Values of `ssl` that the client library accepts besides libpq's modes. */
const libraryModes: Readonly<Record<string, Mode>> = { true: 'verify-full', false: 'disable' }
const parameters = ['sslmode', 'ssl', 'sslrootcert', 'sslnegotiation']

/** The message SSLRequest (postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL). */
const request = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Removes the TLS parameters from a database's URL, and reads them as libpq does (postgresql.org/docs/current/libpq-ssl.html),
 * with five differences. Without `sslmode` there is no TLS, unless `sslrootcert` is `system` (libpq prefers TLS). Without
 * `sslrootcert` the authorities of Node are trusted (libpq reads a file in the home folder). `sslmode=allow` is refused.
 * `sslnegotiation=direct` may be given with `sslmode=prefer` (libpq refuses both together). Any other value of `sslnegotiation`
 * means `postgres` (libpq refuses unknown values).
 * @returns the URL without these parameters; `tls` is undefined for plain text
 * @throws StorageError that names DATABASE_URL and the fault in it
 */
export function takeTls(url: string): { readonly url: string; readonly tls: Tls | undefined } {
  const [, address = url, written = '', rest = ''] = /^([^?#]*)\?([^#]*)(.*)$/s.exec(url) ?? []
  const query = new URLSearchParams(written)
  const isSystem = query.get('sslrootcert') === 'system'
  const mode = modeOf(query.get('sslmode') ?? query.get('ssl') ?? (isSystem ? 'verify-full' : 'disable'))
  // libpq refuses this too: public authorities sign certificates for anybody, so a certificate proves nothing without a check of
  // its host name.
  if (isSystem && mode !== 'verify-full') {
    throw new StorageError(`DATABASE_URL has sslrootcert=system, which asks for sslmode=verify-full. Add this sslmode.`)
  }
  const isDirect = query.get('sslnegotiation') === 'direct'
  const authorities = mode === 'disable' ? undefined : authoritiesOf(query.get('sslrootcert'))
  for (const name of parameters) query.delete(name)
  const left = query.size === 0 ? '' : `?${query}`
  const plainUrl = `${address}${left}${rest}`
  if (mode === 'disable') return { url: plainUrl, tls: undefined }
  const options = optionsOf(mode, authorities, isDirect)
  return { url: plainUrl, tls: { isOptional: mode === 'prefer', isDirect, options } }
}

function modeOf(word: string): Mode {
  const mode = modes.find((name) => name === word) ?? valueIn(libraryModes, word)
  if (mode !== undefined) return mode
  throw new StorageError(`DATABASE_URL has an sslmode that is not understood; give one of ${modes.join(', ')}.`)
}

/** The certificates of the authorities in PEM; undefined when the URL has no `sslrootcert`. */
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

/** The checks of a mode. With a file of authorities, `require` checks as `verify-ca` does, as libpq documents. */
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
 * Begins TLS on a socket that is connecting. To cancel it, the caller destroys the socket.
 * @returns the socket with TLS, or the same socket when the server has no TLS and TLS is optional
 * @throws ConnectFault when TLS is not possible; ConnectionLost or Node's error when the connection is lost
 */
export async function beginTls(socket: Socket, host: string, tls: Tls): Promise<Socket> {
  await nextEvent(socket, 'connect')
  if (!tls.isDirect) {
    socket.write(request)
    const [answer] = await nextEvent(socket, 'data')
    const letter = Buffer.isBuffer(answer) ? answer.toString('latin1') : ''
    if (letter === 'N' && tls.isOptional) return socket
    // E begins the refusal of a server that is older than TLS, or that cannot start a process for the connection.
    if (/^[NE]/.test(letter)) throw new ConnectFault('TLS_NOT_OFFERED')
    // More bytes after the S can only come from an attacker between this client and the server.
    if (letter !== 'S') throw new ConnectFault('NOT_POSTGRESQL')
  }
  const secure: TLSSocket = connect({ ...tls.options, socket, host, ...(isIP(host) === 0 && { servername: host }) })
  try {
    await nextEvent(secure, 'secureConnect')
  } catch (error) {
    throw isConnectionGone(error) ? error : new ConnectFault(codeOf(error), error)
  }
  return secure
}

/** Waits for an event of a socket. @throws the socket's error; ConnectionLost when the socket closes before the event */
function nextEvent(socket: Socket, event: string): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    const onClose = () => reject(new ConnectionLost('CONNECTION_CLOSED'))
    socket.once('error', reject).once('close', onClose)
    socket.once(event, (...values: unknown[]) => {
      socket.off('error', reject).off('close', onClose)
      resolve(values)
    })
  })
}
