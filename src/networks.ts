import { BlockList, isIP, isIPv4, SocketAddress } from 'node:net'

/** Addresses and networks of IPv4 and IPv6. */
export interface Networks {
  /** Whether an address is one of these addresses or in one of these networks. It needs the form that `readAddress` returns. */
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

function familyOf(version: number): 'ipv4' | 'ipv6' {
  return version === 4 ? 'ipv4' : 'ipv6'
}
