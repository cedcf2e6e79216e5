import { lengthOf } from '../../bytes.ts'
import { type Fields, isFields, textIn, valueIn } from '../../fields.ts'
import { pictureFacts } from '../../pictures/facts.ts'
import { PictureError } from '../../pictures/parts.ts'
import { strippedPng } from '../../pictures/png.ts'
import { spend } from '../../work/fuel.ts'
import { CardError } from '../documents/card-error.ts'
import { Assets, dataUrl, isIcon, maxPathLength, standardIcon, uriOf } from './assets.ts'
import { countAssets } from './charx.ts'
import { isPlaceholder, pictureOf } from './png.ts'
import { type CardSource, type ExportFormat, maxFileBytes } from './source.ts'
import { storedFile, type ZipFile, zipFile } from './zip-writer.ts'

/** The most bytes of all assets that become data URLs in a card's JSON, because the size of the JSON is limited. */
const maxInlinedBytes = 6 * 1024 * 1024
/** Units of work for each asset, besides its bytes. */
const unitsOfAsset = 100
const localLink = /^(?:embedd?ed:\/\/|__asset:)/
/** The URI of the default asset of a type (V3, "assets"). It replaces a URI whose file is not in the export. */
const standard = 'ccdefault:'

/** The error for an export that is larger than the largest file that the service reads. */
export function tooLargeFile(): CardError {
  return new CardError('card_too_large', `The file would be larger than ${maxFileBytes} bytes. Choose another format.`)
}

/** Takes the assets of a card into a file of another format, and counts the assets that do not fit into it. */
export class AssetCarrier {
  /** The files next to the card in an archive. */
  readonly files: ZipFile[] = []
  /** The picture into which the card is put, if the format is PNG and the card has one. */
  readonly picture: Buffer | undefined
  readonly #source: CardSource
  readonly #format: ExportFormat
  readonly #assets: Assets
  /** The asset that becomes `picture`. */
  readonly #shown: Fields | undefined
  #inlined = 0
  /** The packed bytes of all `files`. */
  #packed = 0
  /** The new URIs of the source's files that are in the export, by their old URIs. Several assets may have one URI. */
  readonly #carried = new Map<string, string>()
  #missing = 0
  readonly #isIconLost: boolean

  constructor(source: CardSource, format: ExportFormat) {
    this.#source = source
    this.#format = format
    this.#assets = new Assets(source)
    const icon = format === 'png' ? this.#assets.mainIcon() : undefined
    const isIntact = icon?.bytes !== undefined && isIntactPng(icon.bytes)
    this.#isIconLost = icon?.bytes !== undefined && !isIntact
    if (!icon || !isIntact) return
    this.picture = icon.bytes
    this.#shown = icon.asset
    const link = localUriOf(icon.asset)
    if (link !== undefined) this.#carried.set(link, standard)
  }

  /** Makes the asset URIs of a card valid in the new file. @param document the card, converted for the format */
  carry(document: Fields): Fields {
    const data = valueIn(document, 'data')
    if (!isFields(data)) return document
    const listed = valueIn(data, 'assets')
    const assets = Array.isArray(listed) ? this.#relink(listed) : undefined
    const changed = this.#withPicture(assets ?? []) ?? assets
    return changed ? { ...document, data: { ...data, assets: changed } } : document
  }

  losses(): readonly string[] {
    const { container, bytes } = this.#source
    const left = container === 'charx' ? countAssets(bytes) - this.#carried.size : 0
    return [
      ...(container === 'png' && this.#format !== 'charx' ? ['The picture of the card is not in this format.'] : []),
      ...(left > 0 ? [`Files of the archive that are not in this format: ${left}.`] : []),
      ...(this.#isIconLost ? ['The main icon is not an intact PNG, so the picture is a plain grey one.'] : []),
      ...(this.#missing > 0
        ? [`Assets whose files are missing or do not fit into this format: ${this.#missing}.`]
        : []),
    ]
  }

  #relink(assets: readonly unknown[]): readonly unknown[] {
    return assets.map((asset, index) => {
      spend(unitsOfAsset)
      return isFields(asset) ? this.#relinked(asset, index) : asset
    })
  }

  #relinked(asset: Fields, index: number): Fields {
    if (asset === this.#shown) return { ...asset, uri: standard, ext: 'png' }
    const link = localUriOf(asset)
    if (link === undefined) return asset
    // In an archive, assets with the same URI share one packed file. A data URL is made anew for each asset, because the map
    // does not keep its long text.
    const known = this.#format === 'charx' ? this.#carried.get(link) : undefined
    if (known !== undefined) return { ...asset, uri: known }
    const isArchive = this.#source.container === 'charx'
    const bytes = this.#format !== 'v2' || isArchive ? this.#assets.read(asset) : undefined
    const uri = bytes && this.#format !== 'v2' ? this.#carry(bytes, asset, index) : undefined
    if (uri !== undefined) {
      this.#carried.set(link, this.#format === 'charx' ? uri : standard)
      return { ...asset, uri }
    }
    // `losses` already counts the files of the archive that are not in the export. All other lost assets are counted here.
    if (!bytes || !isArchive || this.#carried.has(link)) this.#missing++
    return { ...asset, uri: standard }
  }

  /** Stores the bytes of an asset. @returns their URI in the new file; undefined if data URLs would exceed `maxInlinedBytes` */
  #carry(bytes: Buffer, asset: Fields, index: number): string | undefined {
    if (this.#format === 'charx') {
      const extension = pictureFacts(bytes)?.type.slice('image/'.length) ?? plainWord(textIn(asset, 'ext'), 'bin')
      const kind = pictureFacts(bytes) ? 'images' : 'other'
      const name = `assets/${plainWord(textIn(asset, 'type'), 'other')}/${kind}/${index}.${extension}`
      return this.#add(zipFile(name, bytes))
    }
    if (this.#inlined + bytes.length > maxInlinedBytes) return undefined
    this.#inlined += bytes.length
    spend(bytes.length >> 2)
    return dataUrl(bytes)
  }

  /** Adds a file to the archive. @returns its URI */
  #add(file: ZipFile): string {
    this.#packed += lengthOf(file.packed)
    if (this.#packed > maxFileBytes) throw tooLargeFile()
    this.files.push(file)
    return `embeded://${file.name}`
  }

  /** Adds the picture of a PNG source to an archive. @returns the assets with the picture; undefined if nothing is added */
  #withPicture(assets: readonly unknown[]): readonly unknown[] | undefined {
    const { container, bytes } = this.#source
    if (this.#format !== 'charx' || container !== 'png' || isPlaceholder(bytes)) return undefined
    const uri = this.#add(storedFile('assets/icon/images/main.png', pictureOf(bytes)))
    const icons = assets.filter((asset): asset is Fields => isFields(asset) && isIcon(asset))
    const own = icons.find((icon) => uriOf(icon) === standard)
    if (own) return assets.map((asset) => (asset === own ? { ...own, uri, ext: 'png' } : asset))
    const hasMain = icons.some((icon) => textIn(icon, 'name') === 'main')
    return [...assets, { ...standardIcon, uri, name: hasMain ? 'picture' : 'main' }]
  }
}

/** The URI of an asset that is in the card's file, with `embedded:` spelled `embeded:`; undefined for other URIs. */
function localUriOf(asset: Fields): string | undefined {
  const uri = uriOf(asset)
  return uri.length <= maxPathLength && localLink.test(uri) ? uri.replace(/^embedded:/, 'embeded:') : undefined
}

function isIntactPng(bytes: Buffer): boolean {
  if (pictureFacts(bytes)?.type !== 'image/png') return false
  spend(bytes.length >> 5)
  try {
    strippedPng(bytes)
    return true
  } catch (error) {
    if (error instanceof PictureError) return false
    throw error
  }
}

/** The text if it is safe in a file name, else `otherwise`. */
function plainWord(text: string, otherwise: string): string {
  return /^[a-z0-9_]{1,20}$/.test(text) ? text : otherwise
}
