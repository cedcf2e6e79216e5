import type { LanguageModelV4FilePart } from '@ai-sdk/provider'
import { invalidField } from '../../errors.ts'

/** Patterns of the addresses that a provider's service fetches, by media type. A type may have wildcards: `*` or `image/*`. */
export type SupportedUrls = Readonly<Record<string, readonly RegExp[]>>

/** Media types by the extension of a file name: the types of images, sounds and documents that models take. */
const typesByEnding = new Map([
  ['bmp', 'image/bmp'],
  ['gif', 'image/gif'],
  ['heic', 'image/heic'],
  ['heif', 'image/heif'],
  ['jpeg', 'image/jpeg'],
  ['jpg', 'image/jpeg'],
  ['mp3', 'audio/mpeg'],
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['txt', 'text/plain'],
  ['wav', 'audio/wav'],
  ['webp', 'image/webp'],
])

/** Media types that clients misspell. */
const misspelt = new Map([
  ['image/jpg', 'image/jpeg'],
  ['audio/mp3', 'audio/mpeg'],
])

/** The most characters of an http(s) address. To parse megabytes takes a tenth of a second. */
const maxAddressLength = 8192

/**
 * Makes a file part from the URL of an OpenAI content part. A `data:` URL becomes its bytes. An address is passed on, and the
 * provider's service fetches the file. This service never fetches a file, because a request could make it connect to any host.
 * @param kind the kind of the content part, for a URL from which the media type cannot be read
 * @param param the field, for the error message
 * @throws ApiError 400 for an invalid URL, and for an address that the provider's service does not fetch
 */
export function fileFromUrl(
  url: string,
  kind: 'image' | 'file',
  param: string,
  supported: SupportedUrls,
): LanguageModelV4FilePart {
  if (/^data:/i.test(url)) return fileFromDataUrl(url, kind, param)
  if (url.length > maxAddressLength) {
    throw invalidField(param, `has more than ${maxAddressLength} characters. Send a shorter address, or a data: URL`)
  }
  const address = URL.parse(url)
  if (address === null || !['http:', 'https:'].includes(address.protocol)) {
    throw invalidField(param, 'is neither a data: URL nor an http(s) address')
  }
  const mediaType = typeOfName(address.pathname) ?? (kind === 'image' ? 'image/*' : 'application/octet-stream')
  if (!isSupported(url, mediaType, supported)) {
    throw invalidField(param, "is an address that this model's service does not fetch. Send the content as a data: URL")
  }
  return { type: 'file', mediaType, data: { type: 'url', url: address } }
}

/**
 * Makes a file part from base64, the form of OpenAI's `input_audio.data` and `file.file_data`.
 * @throws ApiError 400 for a text that is not base64
 */
export function fileFromBase64(base64: string, mediaType: string, param: string): LanguageModelV4FilePart {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(base64)) throw invalidField(param, 'is not base64')
  const data = isReadByPackages(mediaType) ? Buffer.from(base64, 'base64') : base64
  return { type: 'file', mediaType: misspelt.get(mediaType) ?? mediaType, data: { type: 'data', data } }
}

/**
 * Whether packages read the content: the text of a text file, or the beginning of a file whose type has no subtype. Then they get
 * bytes, because they decode base64 character by character: 8 MB took 3 s.
 */
function isReadByPackages(mediaType: string): boolean {
  return mediaType.startsWith('text') || !/\/[^*]/.test(mediaType)
}

/** The media type for a `format` of OpenAI's `input_audio`. */
export function audioType(format: string): string {
  return typesByEnding.get(format.toLowerCase()) ?? `audio/${format.toLowerCase()}`
}

/** The media type of a file name's extension; undefined for an unknown extension. */
export function typeOfName(name: string): string | undefined {
  return typesByEnding.get(/\.([a-z0-9]{1,5})$/i.exec(name)?.[1]?.toLowerCase() ?? '')
}

/** Maximum characters of a `data:` URL before its content. */
const maxHeadLength = 1000

/** Makes a file part from a `data:` URL (RFC 2397). */
function fileFromDataUrl(url: string, kind: 'image' | 'file', param: string): LanguageModelV4FilePart {
  const comma = url.indexOf(',')
  if (comma === -1 || comma > maxHeadLength) throw invalidField(param, 'is not a whole data: URL')
  const [type = '', ...attributes] = url.slice('data:'.length, comma).split(';')
  const mediaType = type.toLowerCase() || (kind === 'image' ? 'image/*' : 'application/pdf')
  const content = url.slice(comma + 1)
  if (attributes.some((attribute) => attribute.toLowerCase() === 'base64')) {
    return fileFromBase64(content, mediaType, param)
  }
  try {
    const bytes = Buffer.from(decodeURIComponent(content))
    const data = isReadByPackages(mediaType) ? bytes : bytes.toString('base64')
    return { type: 'file', mediaType, data: { type: 'data', data } }
  } catch {
    throw invalidField(param, 'is not a whole data: URL')
  }
}

function isSupported(url: string, mediaType: string, supported: SupportedUrls): boolean {
  return Object.entries(supported).some(
    ([pattern, expressions]) =>
      fitsType(mediaType, pattern.toLowerCase()) &&
      expressions.some((expression) => {
        expression.lastIndex = 0
        return expression.test(url)
      }),
  )
}

function fitsType(mediaType: string, pattern: string): boolean {
  if (pattern === '*' || pattern === '*/*') return true
  return pattern.endsWith('/*') ? mediaType.startsWith(pattern.slice(0, -1)) : mediaType === pattern
}
