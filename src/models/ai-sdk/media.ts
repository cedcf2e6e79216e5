import { isUtf8 } from 'node:buffer'
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
 * @throws ApiError 400 for a text that is not base64, and for a text file that is not UTF-8
 */
export function fileFromBase64(text: string, mediaType: string, param: string): LanguageModelV4FilePart {
  const base64 = standardBase64(text)
  if (base64 === undefined) throw invalidField(param, 'is not base64')
  const known = isMp3(base64, mediaType) ? 'audio/mpeg' : (misspelt.get(mediaType) ?? mediaType)
  if (!isText(known)) return { type: 'file', mediaType: known, data: { type: 'data', data: base64 } }
  const bytes = Buffer.from(base64, 'base64')
  return fileFromBytes(bytes, known, param)
}

/**
 * Makes a file part from bytes.
 * @throws ApiError 400 for a text that is not UTF-8: packages would replace its other bytes
 */
function fileFromBytes(bytes: Buffer, mediaType: string, param: string): LanguageModelV4FilePart {
  if (isText(mediaType) && !isUtf8(bytes)) {
    throw invalidField(param, 'is a text file that is not UTF-8. Encode it as UTF-8')
  }
  return { type: 'file', mediaType, data: { type: 'data', data: bytes } }
}

/** Whether packages read the text of a file. They get bytes, because they decode base64 letter by letter: 8 MB took 3 s. */
function isText(mediaType: string): boolean {
  return mediaType.startsWith('text')
}

/**
 * Whether a file whose type has no subtype begins with ID3, the tag of MP3 files (id3.org, ID3v2). Packages look for the type of
 * such a file behind its tag, and for this decode up to 131 kB letter by letter.
 */
function isMp3(base64: string, mediaType: string): boolean {
  return !/\/[^*]/.test(mediaType) && base64.startsWith('SUQz')
}

/**
 * Base64 in the standard alphabet and with padding (RFC 4648, section 4), as providers want it. Clients also send the URL alphabet,
 * and leave out the padding. Undefined for a text that is not base64.
 */
function standardBase64(text: string): string | undefined {
  const padding = /={1,2}$/.exec(text.slice(-2))?.[0].length ?? 0
  const digits = padding === 0 ? text : text.slice(0, -padding)
  if (digits === '' || digits.length % 4 === 1 || /[^A-Za-z0-9+/_-]/.test(digits)) return undefined
  const isStandard = text.length % 4 === 0 && !/[-_]/.test(digits)
  return isStandard ? text : Buffer.from(digits, 'base64').toString('base64')
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
  const bytes = percentDecoded(content)
  if (bytes === undefined) throw invalidField(param, 'is not a whole data: URL')
  return fileFromBytes(bytes, mediaType, param)
}

/** The bytes of a percent-encoded text (RFC 3986, section 2.1); undefined if an escape is not whole. */
function percentDecoded(text: string): Buffer | undefined {
  const bytes = Buffer.from(text)
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    let byte = bytes[at] ?? 0
    if (byte === percentSign) {
      byte = hexDigit(bytes[at + 1]) * 16 + hexDigit(bytes[at + 2])
      if (Number.isNaN(byte)) return undefined
      at += 2
    }
    bytes[length++] = byte
  }
  return bytes.subarray(0, length)
}

const percentSign = 0x25

/** The value of an ASCII character as a hexadecimal digit; NaN for another character. */
function hexDigit(character = 0): number {
  return Number.parseInt(String.fromCharCode(character), 16)
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
