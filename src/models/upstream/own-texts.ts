import { hasPublicHost } from '../../openai/public-urls.ts'
import { beginningOf } from '../../text.ts'

/*
 * The texts of the operator that an upstream's message may quote: keys and addresses. Everything else in a message is the
 * upstream's own, and the caller gets it unchanged.
 */

/** The settings of a model that have keys or its address. */
interface Settings {
  readonly baseUrl?: string | undefined
  readonly apiKey?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** Headers, and parameters of addresses, that have no key. Messages of upstreams quote some of their values. */
const harmless = /^(?:accept.*|content-.*|user-agent|(?:http-)?referer|origin|x-title|.*-(?:version|beta))$/i

/** A shorter value is not secret, and if it were removed, ordinary sentences would be damaged. */
const minLength = 8

/** The keys in a model's settings, and its host, the longest first. No error may repeat them. */
export function ownTextsOf({ baseUrl = '', apiKey = '', headers = {} }: Settings): readonly string[] {
  const url = URL.parse(baseUrl)
  const named = [...Object.entries(headers), ...(url?.searchParams ?? [])].filter(([name]) => !harmless.test(name))
  const values = [apiKey, ...named.map(([, value]) => value)]
  // An upstream may quote a key without the word before it.
  const bare = values.map((value) => value.replace(/^(?:bearer|basic|token|key) +/i, ''))
  const keys = [...values, ...bare].filter(({ length }) => length >= minLength)
  // The name of a service in a private network may be an ordinary word.
  const hosts = [url?.host ?? '', url?.hostname ?? ''].filter((host) => /[.:]/.test(host))
  return [...new Set([...keys, ...hosts])].toSorted((a, b) => b.length - a.length)
}

/** The most characters of a message that the caller gets, that patterns search, and in which keys of the settings are replaced. */
const maxShownLength = 4000
const maxSearchedLength = 2 * maxShownLength
const maxReplacedLength = 64 * 1024

/** A URL with its scheme, up to a character that usually stands behind it. */
const urls = /\b[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'`<>()[\]{},;]+/gi
/** A name, a password, a key or a removed text in a URL. */
const keysInUrl = /[@…]|[?&][^=&?]{0,40}(?:key|token|secret|sig|auth|pass)/i

/** Keys of known forms, and addresses of private networks (RFC 1918). */
const keysAndAddresses =
  /\b(?:sk|pk|rk)[-_](?=[\w-]{0,100}\d)[\w-]{16,}|\bAIza[\w-]{30,}|\bbearer\s{1,9}(?=[\w.~+/=-]{0,100}\d)[\w.~+/=-]{16,}|\b(?:(?:10|127)(?:\.\d{1,3}){3}|(?:192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2})\b(?::\d{1,5})?|\blocalhost:\d{1,5}/gi

/**
 * The beginning of an upstream's message, without keys and addresses of the operator.
 * @param own the result of `ownTextsOf`
 */
export function withoutOwnTexts(message: string, own: readonly string[]): string {
  const known = own.reduce((text, each) => text.replaceAll(each, '…'), message.slice(0, maxReplacedLength))
  // A cut may split a text of the settings, a key or an address.
  const longest = Math.max(0, ...own.map(({ length }) => length))
  const whole = message.length <= maxReplacedLength ? known : known.slice(0, Math.max(0, known.length - longest))
  const isCut = message.length > maxReplacedLength || whole.length > maxSearchedLength
  const searched = whole.slice(0, maxSearchedLength)
  const text = isCut ? searched.slice(0, endOfWord(searched)) : searched
  return beginningOf(text.replace(urls, shown).replace(keysAndAddresses, '…'), maxShownLength)
}

/** A URL, if it is public and has no text of the operator. A full stop behind it belongs to the sentence. */
function shown(url: string): string {
  if (hasPublicHost(url) && !keysInUrl.test(url)) return url
  return `…${/[.:!?]?$/.exec(url)?.[0] ?? ''}`
}

/** The index after the last character that cannot be a part of a key or an address; 0 if all characters can. */
function endOfWord(text: string): number {
  let end = text.length
  while (end > 0 && /[\w.~+/=:-]/.test(text.charAt(end - 1))) end--
  return end
}
