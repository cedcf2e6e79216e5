import { isIP } from 'node:net'
import { type Networks, parseNetworks, readAddress } from './networks.ts'

/** The proxies for requests to other hosts, as the environment sets them. */
export interface Proxies {
  /** The URL of the proxy, which may contain a user name and a password. Undefined for a direct request. */
  of(url: URL): string | undefined
}

/** All requests are direct. */
export const noProxies: Proxies = { of: () => undefined }

/** The raw values of the proxy settings. */
type ProxySettings = Readonly<Record<'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY', string | undefined>>

/**
 * Reads the proxy settings as curl and most programs do. Requests to this machine never use a proxy, and neither do requests to
 * names without a dot, which may be containers.
 * @param onFault gets the name of each malformed setting, and the end of a sentence that says what is wrong
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
      return isLocal(host) || exempt.some((covers) => covers(host, port)) ? undefined : proxy
    },
  }
}

/** Reads the URL of a proxy. The default scheme is http. The value may have a password, so the fault does not quote the value. */
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

/** Whether a host is this machine, or a name without a dot. */
function isLocal(host: string): boolean {
  const address = readAddress(host)
  if (address !== undefined) return typeof loopback !== 'string' && loopback.has(address)
  return !host.includes('.') || host.endsWith('.localhost')
}

/** Whether requests to a host and its port use no proxy. */
type Covers = (host: string, port: string) => boolean

/**
 * The exemptions of `NO_PROXY`: `*`, a host and its subdomains, `*.host` for subdomains only, addresses, and networks. Hosts and
 * addresses may have a port.
 */
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
