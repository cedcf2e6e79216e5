import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Fields, isFields, valueIn } from '../../../src/fields.ts'
import { installPackages } from '../installed-packages.ts'

/** The installed packages: three readers of cards, and two packages that extract the JSON from pictures for readers of JSON. */
export const packages = [
  '@risuai/ccardlib@0.4.2',
  'character-card-utils@2.0.3',
  '@character-foundry/character-foundry@0.5.0',
  'png-chunks-extract@1.0.0',
  'png-chunk-text@1.0.0',
]

/** A picture or another file of a card, from a reader. */
export interface ReadAsset {
  readonly name: string
  readonly type: string
  readonly data: Uint8Array | string
}

/** The format that a file was exported in. */
export type Format = 'json' | 'v2' | 'png' | 'charx'

/** Programs of other authors that read and write cards. The caller removes them. */
export interface CardReaders {
  readonly foundry: Foundry
  readonly cardUtils: CardUtils
  readonly risu: Risu
  /** Extracts the card from a file, without the service's code. @param keyword the keyword of the text chunk in a PNG */
  unpack(bytes: Buffer, format: Format, keyword?: 'ccv3' | 'chara'): Fields
  remove(): void
}

interface Foundry {
  parseCard(bytes: Uint8Array): { readonly card: { readonly data: Fields }; readonly assets: readonly ReadAsset[] }
  exportCard(
    card: Fields,
    assets: readonly object[],
    options: { readonly format: 'png' | 'charx' },
  ): { readonly buffer: Uint8Array }
}

interface CardUtils {
  /** @throws an error for a card that is neither V2 nor V1 */
  parseToV2(document: unknown): { readonly data: Fields }
  v1ToV2(document: Fields): Fields
  backfillV2(document: Fields): Fields
}

interface Risu {
  readonly character: {
    check(document: Fields): 'v1' | 'v2' | 'v3' | 'unknown'
    /** @param options if `from` is missing, the library detects the format of the card */
    convert(
      document: Fields,
      options: { readonly from?: 'v2' | 'v3'; readonly to: 'v2' | 'v3' },
    ): { readonly data: Fields }
  }
}

/** Installs the readers from npm into a temporary folder. */
export async function installCardReaders(): Promise<CardReaders> {
  const folder = installPackages(packages)
  const from = createRequire(join(folder.path, 'package.json'))
  const load = (name: string) => import(pathToFileURL(from.resolve(name)).href)
  const foundryRoot = '@character-foundry/character-foundry'
  const { parseCard }: Pick<Foundry, 'parseCard'> = await load(`${foundryRoot}/loader`)
  const { exportCard }: Pick<Foundry, 'exportCard'> = await load(`${foundryRoot}/exporter`)
  const { CCardLib: risu }: { CCardLib: Risu } = await load('@risuai/ccardlib')
  const cardUtils: CardUtils = from('character-card-utils')
  const chunksOf: (bytes: Buffer) => { name: string; data: Uint8Array }[] = from('png-chunks-extract')
  const text: { decode(data: Uint8Array): { keyword: string; text: string } } = from('png-chunk-text')
  const { unzipSync }: { unzipSync(bytes: Buffer): Record<string, Uint8Array> } = await load('fflate')

  const jsonIn = {
    json: (bytes: Buffer) => bytes.toString(),
    v2: (bytes: Buffer) => bytes.toString(),
    charx: (bytes: Buffer) => Buffer.from(unzipSync(bytes)['card.json'] ?? []).toString(),
    png: (bytes: Buffer, keyword: string) => {
      const texts = chunksOf(bytes).flatMap(({ name, data }) => (name === 'tEXt' ? [text.decode(data)] : []))
      return Buffer.from(texts.find((each) => each.keyword === keyword)?.text ?? '', 'base64').toString()
    },
  }
  return {
    foundry: { parseCard, exportCard },
    cardUtils,
    risu,
    unpack: (bytes, format, keyword = 'ccv3') => JSON.parse(jsonIn[format](bytes, keyword)),
    remove: () => folder.remove(),
  }
}

/** The `data` of a card of V2 or V3. */
export function dataOf(document: Fields): Fields {
  const data = valueIn(document, 'data')
  if (!isFields(data)) throw new Error('the card has no data')
  return data
}
