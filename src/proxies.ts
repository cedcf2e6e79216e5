import { isIP } from 'node:net'
import { type Networks, parseNetworks, readAddress } from './networks.ts'

/** Through which proxy requests to others go, by what the environment says of it. */
export interface Proxies {
  /** The proxy's address, with a name and a password where it wants them; undefined where there is to be none. */
  of(url: URL): string | undefined
}

/** Requests go straight to whom they are for. */
export const noProxies: Proxies = { of: () => undefined }

/** The settings of proxies, as they are written. */
type ProxySettings = Readonly<Record<'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY', string | undefined>>

/**
 * Reads the settings of proxies, as curl and most others understand them. This machine, and names without a dot, such as
 * those of containers beside this one, never have a proxy.
 * @param onFault is told of each that is malformed, by its name, and the end of a sentence that says so
 */
export function readProxySettings(
  settings: ProxySettings,
  onFault: (name: keyof ProxySettings, problem: string) => void,
): Proxies {
  const read = (name: 'HTTP_PROXY' | 'HTTPS_PROXY') => readProxy(settings[name], (problem) => onFault(name, problem))
  const proxies = { 'http:': read('HTTP_PROXY'), 'https:': read('HTTPS_PROXY') }
  if (!proxies['http:'] && !proxies['https:']) return noProxies
  const exempt = readExempt(settings.NO_PROXY ?? '', (problem) => onFault('NO_PROXY', problem))
  return {
    of(url) {
      const { protocol } = url
      const proxy = protocol === 'http:' || protocol === 'https:' ? proxies[protocol] : undefined
      if (proxy === undefined) return undefined
      const host = url.hostname.toLowerCase().replace(/^\[|\]$|\.$/g, '')
      const port = url.port || (protocol === 'https:' ? '443' : '80')
      return isNear(host) || exempt.some((covers) => covers(host, port)) ? undefined : proxy
    },
  }
}

/** The address of a proxy; without a scheme it is an http one. Its value may hold a password, and is not repeated. */
function readProxy(written: string | undefined, fault: (problem: string) => void): string | undefined {
  if (written === undefined) return undefined
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(written) ? written : `http://${written}`)
  const isProxy = url !== null && /^https?:$/.test(url.protocol) && url.pathname === '/' && !url.search && !url.hash
  if (isProxy && isDecodable(url.username) && isDecodable(url.password)) return url.href
  fault('is not an address such as http://proxy.example:3128')
  return undefined
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

const loopback = parseNetworks('127.0.0.0/8, ::1')

/** This machine, and what has a name without a dot. */
function isNear(host: string): boolean {
  const address = readAddress(host)
  if (address !== undefined) return typeof loopback !== 'string' && loopback.has(address)
  return !host.includes('.') || host.endsWith('.localhost')
}

/** Whether a host and its port are excepted. */
type Covers = (host: string, port: string) => boolean

/** What `NO_PROXY` excepts: `*`, hosts with those below them, `*.host` for those below it alone, addresses, and networks. */
function readExempt(written: string, fault: (problem: string) => void): readonly Covers[] {
  const entries = written
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
  return entries.map((entry): Covers => {
    if (entry === '*') return () => true
    if (entry.includes('/')) {
      const networks = parseNetworks(entry)
      if (typeof networks === 'string') fault(networks)
      return (host) => typeof networks !== 'string' && isIn(networks, host)
    }
    const [, name = '', wanted] = /^(.+?)(?::(\d+))?$/.exec(isIP(entry) === 6 ? `[${entry}]` : entry) ?? []
    const bare = name.replace(/^\*?\.|^\[|\]$|\.$/g, '')
    const address = readAddress(bare)
    return (host, port) => {
      if (wanted !== undefined && wanted !== port) return false
      if (address !== undefined) return readAddress(host) === address
      return host.endsWith(`.${bare}`) || (host === bare && !name.startsWith('*'))
    }
  })
}

function isIn(networks: Networks, host: string): boolean {
  const address = readAddress(host)
  return address !== undefined && networks.has(address)
}
