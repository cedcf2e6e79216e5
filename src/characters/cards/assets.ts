import { type Fields, isFields, listIn, textIn } from '../../fields.ts'
import { pictureFacts } from '../../pictures/facts.ts'
import { spend } from '../../work/fuel.ts'
import { CardError } from '../documents/card-error.ts'
import { decodePayload } from './payload.ts'
import { assetTexts } from './png.ts'
import type { CardSource } from './source.ts'
import { dataOf } from './versions.ts'
import { listZip, maxNameBytes, unzip, type ZipEntry } from './zip.ts'

/** The most bytes of an unpacked asset of an archive. A data URL may have twice as many characters. */
export const maxAssetBytes = 16 * 1024 * 1024
/** The most characters of a URI that may be a path. A longer one may be a data URL, and is not trimmed. */
export const maxPathLength = 100_000
/** Units of work for each file of an archive, and for each asset. */
const unitsOfFile = 100
/** Units of work to unpack a file, besides its bytes. */
const unitsOfUnzip = 3000

/** Finds the bytes of a card's assets: in its archive, in its picture's chunks, and in data URLs. */
export class Assets {
  readonly #source: CardSource
  #files: ReadonlyMap<string, ZipEntry> | undefined
  #texts: ReadonlyMap<string, Buffer> | undefined

  constructor(source: CardSource) {
    this.#source = source
  }

  /** The card's list of assets, without items that are not objects. */
  get listed(): readonly Fields[] {
    return listIn(dataOf(this.#source.document), 'assets').filter(isFields)
  }

  /**
   * The bytes of an asset. Undefined if its URI points to another host (the service fetches nothing), or to missing or damaged
   * bytes in the card's file.
   */
  read(asset: Fields): Buffer | undefined {
    const uri = uriOf(asset)
    try {
      return uri.length > maxPathLength ? bytesOfDataUrl(uri) : this.#bytesAt(uri, isIcon(asset))
    } catch (error) {
      if (error instanceof CardError) return undefined
      throw error
    }
  }

  #bytesAt(uri: string, icon: boolean): Buffer | undefined {
    const { container, bytes } = this.#source
    // In a PNG, this URI of an icon means the whole PNG, with the card in it.
    if (uri === 'ccdefault:') return container === 'png' && icon ? bytes : undefined
    const path = /^embedd?ed:\/\/([\s\S]+)$/.exec(uri)?.[1]
    if (path !== undefined) return container === 'charx' ? this.#unzipped(path) : undefined
    const chunk = /^__asset:([\s\S]+)$/.exec(uri)?.[1]
    if (chunk !== undefined) return container === 'png' ? this.#embedded(chunk) : undefined
    return bytesOfDataUrl(uri)
  }

  #embedded(path: string): Buffer | undefined {
    this.#texts ??= assetTexts(this.#source.bytes)
    const text = this.#texts.get(path)
    return text && decodePayload(text)
  }

  #unzipped(path: string): Buffer | undefined {
    if (!this.#files) {
      const files = listZip(this.#source.bytes)
      const named = files.filter((file) => !file.isSymbolicLink && file.name.length <= maxNameBytes)
      this.#files = new Map(named.map((file) => [file.name, file]))
    }
    // `ZipEntry.name` has the bytes of a name as Latin-1 characters, so the bytes of the path are converted in the same way.
    const file = this.#files.get(Buffer.from(path).toString('latin1'))
    if (!file || file.size > maxAssetBytes) return undefined
    spend(unitsOfUnzip + (file.size >> 3))
    return unzip(file, maxAssetBytes)
  }

  /**
   * The card's main icon (V3, "assets"): the icon named `main`, else the first icon. In a PNG, it is the PNG itself if there is
   * no icon, or if the icon's bytes cannot be read.
   * @returns undefined if there is no icon; an icon without `bytes` if its bytes cannot be read
   */
  mainIcon(): { readonly asset: Fields; readonly bytes: Buffer | undefined } | undefined {
    const icons = this.listed.filter(isIcon)
    spend(icons.length * unitsOfFile)
    const asset = icons.find((each) => textIn(each, 'name') === 'main') ?? icons[0] ?? standardIcon
    const bytes = this.read(asset)
    if (bytes !== undefined || this.#source.container !== 'png') return icons[0] || bytes ? { asset, bytes } : undefined
    return { asset: standardIcon, bytes: this.read(standardIcon) }
  }
}

/** The icon of a card without a list of assets (V3, "assets"). */
export const standardIcon: Fields = { type: 'icon', uri: 'ccdefault:', name: 'main', ext: 'png' }

/**
 * The URI of an asset, without blanks around it. A URI that is too long for a path is not trimmed, because it may be a data URL of
 * megabytes.
 */
export function uriOf(asset: Fields): string {
  const uri = textIn(asset, 'uri')
  return uri.length > maxPathLength ? uri : uri.trim()
}

/** Whether an asset is one of the character's icons. */
export function isIcon(asset: Fields): boolean {
  return textIn(asset, 'type') === 'icon'
}

/** Bytes as a data URL (RFC 2397). */
export function dataUrl(bytes: Buffer): string {
  return `data:${pictureFacts(bytes)?.type ?? 'application/octet-stream'};base64,${bytes.toString('base64')}`
}

function bytesOfDataUrl(uri: string): Buffer | undefined {
  const head = /^\s*data:[^,]{0,200};base64,/i.exec(uri.slice(0, 300))?.[0]
  if (head === undefined || uri.length > 2 * maxAssetBytes) return undefined
  return Buffer.from(uri.slice(head.length), 'base64')
}
