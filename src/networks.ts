import { BlockList, isIP, isIPv4, SocketAddress } from 'node:net'

/** Addresses and networks of IPv4 and IPv6. */
export interface Networks {
  /** Whether these networks contain an address. @param address in the form that `readAddress` returns */
  has(address: string): boolean
}

/**
 * Reads addresses and networks such as `10.0.0.0/8, fd00::/8, 192.0.2.7`.
 * @returns the networks, or the end of a sentence about the first malformed one
 */
export function parseNetworks(written: string): Networks | string {
  const list = new BlockList()
  for (const each of written.split(',').map((part) => part.trim())) {
    const [, address = '', prefix] = /^([\da-f.:]+)(?:\/(\d{1,3}))?$/i.exec(each) ?? []
    const version = isIP(address)
    const longest = version === 4 ? 32 : 128
    const length = Number(prefix ?? longest)
    if (version === 0 || length > longest) {
      return `has ${JSON.stringify(each)}; give addresses or networks such as 192.0.2.7, 10.0.0.0/8 or fd00::/8, with commas between`
    }
    list.addSubnet(address, length, familyOf(version))
  }
  return { has: (address) => list.check(address, familyOf(isIP(address))) }
}

/**
 * Reads an IP address and returns it in one canonical form: an IPv4 address that is mapped into IPv6 (`::ffff:192.0.2.7`)
 * becomes IPv4, and the zone (`%eth0`) is removed.
 * @returns undefined if the text is not an address
 */
export function readAddress(text: string): string | undefined {
  const bare = text.replace(/%.*$/s, '')
  const version = isIP(bare)
  if (version === 0) return undefined
  if (version === 4) return bare
  const { address } = new SocketAddress({ address: bare, family: 'ipv6' })
  const mapped = address.replace(/^::ffff:/, '')
  return isIPv4(mapped) ? mapped : address
}

/**
 * The network of one caller. For IPv4 it is the address itself. For IPv6 it is the first 64 bits with `/64`, because each site
 * gets at least a /64 network (RFC 6177).
 * @param address in the form that `readAddress` returns
 */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const ending = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - groups.length - ending.length
  const all = [...groups, ...Array<string>(zeros).fill('0'), ...ending]
  return `${all.slice(0, 4).join(':')}::/64`
}

function familyOf(version: number): 'ipv4' | 'ipv6' {
  return version === 4 ? 'ipv4' : 'ipv6'
}
