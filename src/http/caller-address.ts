import type { IncomingMessage } from 'node:http'
import { type Networks, readAddress } from '../networks.ts'

/**
 * The address that a request comes from. A proxy that is trusted is believed whom it forwards for, and that one in its
 * turn: so it is the rightmost address of `X-Forwarded-For` that is no trusted proxy's. What anybody else writes there, and
 * what is left of that, is nothing but a text. No other header of proxies is read at all, neither for the host nor for the protocol.
 * @param proxies those that are trusted; none without it
 * @returns an empty text where the connection has ended before anybody asked
 */
export function callerAddress({ socket, headers }: IncomingMessage, proxies?: Networks): string {
  const { remoteAddress = '' } = socket
  if (!proxies) return remoteAddress.startsWith('::ffff:') ? (readAddress(remoteAddress) ?? '') : remoteAddress
  const forwarded = String(headers['x-forwarded-for'] ?? '').split(',')
  let address = readAddress(remoteAddress) ?? ''
  while (address !== '' && proxies.has(address)) {
    const next = addressOf(forwarded.pop() ?? '')
    if (next === undefined) break
    address = next
  }
  return address
}

/** The address of an entry, which may have a port: `192.0.2.7:4711`, `[2001:db8::7]:4711`. */
function addressOf(entry: string): string | undefined {
  const trimmed = entry.trim()
  const [, inBrackets, beforePort] = /^(?:\[([^\]]+)\]|([\d.]+))(?::\d+)?$/.exec(trimmed) ?? []
  return readAddress(inBrackets ?? beforePort ?? trimmed)
}
