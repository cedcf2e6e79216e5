import type { LanguageModelV4FilePart } from '@ai-sdk/provider'
import { invalidField } from '../../errors.ts'

/** The addresses that a provider's own service fetches, by media type; patterns may be `*`, `image/*` and the like. */
export type SupportedUrls = Readonly<Record<string, readonly RegExp[]>>

/** Media types of addresses, by their last path segment's ending; what vision and document models take. */
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

/**
 * A file for the model, from the URL of an OpenAI content part. A `data:` URL becomes its bytes. An address stays one:
 * the provider's own service fetches it. This service never does, since it would dial wherever a request says.
 * @param kind what the part is for, when nothing else tells the media type: `image` or `file`
 * @param param the field, for the caller
 */
export function fileFromUrl(
  url: string,
  kind: 'image' | 'file',
  param: string,
  supported: SupportedUrls,
): LanguageModelV4FilePart {
  if (/^data:/i.test(url)) return fileFromDataUrl(url, kind, param)
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

/** A file for the model from base64, as OpenAI's `input_audio.data` and `file.file_data` hold it. */
export function fileFromBase64(data: string, mediaType: string, param: string): LanguageModelV4FilePart {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(data)) throw invalidField(param, 'is not base64')
  return { type: 'file', mediaType: misspelt.get(mediaType) ?? mediaType, data: { type: 'data', data } }
}

/** The media type of the format names of OpenAI's `input_audio`. */
export function audioType(format: string): string {
  return typesByEnding.get(format.toLowerCase()) ?? `audio/${format.toLowerCase()}`
}

/** The media type that the ending of a file's name tells. */
export function typeOfName(name: string): string | undefined {
  return typesByEnding.get(/\.([a-z0-9]{1,5})$/i.exec(name)?.[1]?.toLowerCase() ?? '')
}

/** Characters of the longest beginning of a `data:` URL, before its content. */
const maxHeadLength = 1000

/** Reads a `data:` URL (RFC 2397). */
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
    const data = Buffer.from(decodeURIComponent(content)).toString('base64')
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
