import { isIPv4 } from 'node:net'
import { ApiError, invalidField } from '../errors.ts'
import type { Fields } from '../fields.ts'
import type { ContentPart, Message } from './completion-request.ts'
import { filedKinds, unreadTexts } from './messages.ts'

/**
 * Checks that the images, sounds, videos and files of messages have public hosts in their URLs. An upstream in the operator's
 * network could otherwise fetch a page of that network for a caller.
 * @param messages messages that `checkMessages` has checked
 * @throws ApiError 400 `private_url` that names the field
 */
export function checkPublicUrls(messages: readonly Message[]): void {
  let urls = 0
  for (const [place, url] of urlsIn(messages)) {
    if (++urls > maxUrls) throw invalidField('messages', `has more than ${maxUrls} URLs in all: send fewer`)
    if (!hasPublicHost(url)) throw privateUrl(place)
  }
}

/** The most http(s) URLs of a request. The APIs of providers take at most a few thousand images. */
const maxUrls = 10_000

/** The http(s) URLs of messages, with the paths of their fields. */
function* urlsIn(messages: readonly Message[]): Iterable<readonly [param: string, url: string]> {
  for (const [index, { content }] of messages.entries()) {
    const parts: readonly ContentPart[] = Array.isArray(content) ? content : []
    for (const [place, part] of parts.entries()) yield* urlsOfPart(part, `messages[${index}].content[${place}]`)
  }
}

function* urlsOfPart(part: ContentPart, at: string): Iterable<readonly [param: string, url: string]> {
  for (const unread of unreadTexts(part, at)) if (/^\s*https?:/i.test(unread[1])) yield unread
  for (const kind of filedKinds) {
    const fields: Fields = part[kind] ?? {}
    for (const name in fields) {
      const value = fields[name]
      const isUrl = typeof value === 'string' && name !== 'filename' && /^https?:/i.test(value)
      if (isUrl) yield [`${at}.${kind}.${name}`, value]
    }
  }
}

function privateUrl(param: string): ApiError {
  const problem = 'has a URL with an IP address, or with a name of a private network'
  const message = `The field "${param}" ${problem}. Send a data: URL, or a URL with a public name.`
  return new ApiError(400, 'private_url', message, { param })
}

/**
 * The host of a URL with its port, and with a name and password before it. The longest name in DNS has 253 characters
 * (RFC 1035, section 2.3.4).
 */
const authorities = /^https?:\/\/([^/?#]{1,500})(?:[/?#]|$)/i

/** Characters of which programs disagree whether they end the host. */
const ambiguous = /[\\\s\p{Cc}]/u

/**
 * Names of private networks: those without a dot, and those of RFC 6761 (`localhost`), RFC 6762 (`local`), RFC 8375
 * (`home.arpa`) and ICANN's resolution 2024.07.29.06 (`internal`).
 */
const privateName = /^[^.]*$|\.(?:localhost|local|home\.arpa|internal)$/

/**
 * Whether the host of an http(s) URL is a public name. The name is not resolved, because the upstream may resolve
 * it otherwise. An IP address is never public, in whatever form it is written (url.spec.whatwg.org, "Host parsing").
 */
export function hasPublicHost(url: string): boolean {
  // Only the beginning is parsed, because a URL may have megabytes.
  const authority = authorities.exec(url.slice(0, 600))?.[1]
  if (authority === undefined || ambiguous.test(authority)) return false
  // Programs also disagree which of two @ begins the host.
  if (authority.indexOf('@') !== authority.lastIndexOf('@')) return false
  const host = URL.parse(`http://${authority}`)?.hostname.replace(/(?<!\.)\.+$/, '') ?? ''
  return !host.startsWith('[') && !isIPv4(host) && !privateName.test(host)
}
