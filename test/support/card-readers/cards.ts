import { deflateSync } from 'node:zlib'
import { cardOfV1, jsonBytes, laterFields } from '../cards.ts'
import { cardChunk, png, pngChunk, zip } from '../containers.ts'

/*
 * Cards with every field of their version. Their texts have Chinese, Japanese and Korean, and characters of several UTF-16 units.
 */

const texts = {
  ...cardOfV1,
  name: '門番・문지기',
  description: '「ようこそ」\r\n守门人 {{char}} 👩‍🚀\ttab "quoted" \\ <b>',
  personality: '静か',
  scenario: '',
  first_mes: 'こんにちは、{{user}}。',
  mes_example: '<START>\n{{user}}: 谁？\n{{char}}: 我。',
}
const later = {
  ...laterFields,
  creator_notes: 'Notes — “quoted”',
  system_prompt: '{{original}} 敬語',
  post_history_instructions: '短く',
  alternate_greetings: ['안녕', ''],
  tags: ['守', 'guard'],
  creator: 'ä',
  character_version: '1.0',
  extensions: { depth_prompt: { depth: 4, prompt: '夜', role: 'system' }, n: { list: [1, -1.5, true, null] } },
}

const entryOfV2 = {
  keys: ['門', 'gate'],
  content: '門が開く',
  extensions: { position: 1 },
  enabled: true,
  insertion_order: 3,
  case_sensitive: false,
  name: 'The gate',
  priority: 10,
  id: 7,
  comment: '註',
  selective: true,
  secondary_keys: ['夜'],
  constant: false,
  position: 'after_char',
}
const bookOfV2 = {
  name: '本',
  description: 'A book',
  scan_depth: 3,
  token_budget: 200,
  recursive_scanning: true,
  extensions: { b: 1 },
  entries: [entryOfV2, { ...entryOfV2, id: 8, enabled: false, constant: true, position: 'before_char' }],
}
const bookOfV3 = {
  ...bookOfV2,
  entries: [
    { ...entryOfV2, use_regex: false },
    { ...entryOfV2, id: 9, keys: ['門|gate\\d+'], content: '@@depth 2\n@@role user\n鍵は四つ', use_regex: true },
  ],
}

export const whole1 = texts
export const whole2 = {
  spec: 'chara_card_v2',
  spec_version: '2.0',
  data: { ...texts, ...later, character_book: bookOfV2 },
}
export const whole3 = {
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: {
    ...texts,
    ...later,
    nickname: '番さん',
    creator_notes_multilingual: { en: 'n', ja: '註' },
    source: ['https://cards.example/1'],
    group_only_greetings: ['皆さん'],
    creation_date: 1_700_000_000,
    modification_date: 1_700_000_001,
    character_book: bookOfV3,
  },
}
/** A V3 card as other programs write them: it lacks fields without a value, and its entries lack required fields. */
export const bare3 = {
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: {
    ...texts,
    character_book: { entries: [{ keys: ['/門/'], content: '鍵', enabled: true, insertion_order: 0 }] },
  },
}

/** A small picture that its width identifies. @param width pixels */
export function picture(width: number): Buffer {
  const head = Buffer.from('00000000000000010800000000', 'hex')
  head.writeUInt32BE(width)
  const chunks = [pngChunk('IHDR', head), pngChunk('IDAT', deflateSync(Buffer.alloc(width + 1))), pngChunk('IEND')]
  return Buffer.concat([png().subarray(0, 8), ...chunks])
}

const asset = (type: string, name: string, uri: string) => ({ type, name, uri, ext: 'png' })
const withAssets = (assets: readonly object[]) => ({ ...whole3, data: { ...whole3.data, assets } })

export const icon = picture(3)
export const joy = picture(5)
const linked = withAssets([
  asset('icon', 'main', 'embeded://assets/icon/images/main.png'),
  asset('emotion', 'joy', 'embeded://assets/emotion/images/joy.png'),
])

/** A card in a file, and the names and bytes of its pictures, for formats that have pictures. */
export interface SourceFile {
  readonly card: object
  readonly bytes: Buffer
  readonly pictures: Readonly<Record<string, Buffer>>
  /** The formats whose files have the same pictures, byte for byte. */
  readonly picturesIn: readonly string[]
}

const file = (card: object, bytes = jsonBytes(card)): SourceFile => ({
  card,
  bytes,
  pictures: {},
  picturesIn: [],
})
const carried = { pictures: { main: icon, joy }, picturesIn: ['png', 'charx'] }

/** The cards to export, by their name in the titles of the tests. */
export const sources: Readonly<Record<string, SourceFile>> = {
  'V1, JSON': file(whole1),
  'V2, JSON': file(whole2),
  'V3, JSON': file(whole3),
  'V3, JSON, without what its types require': file(bare3),
  'V2, PNG': {
    ...file(whole2, inPicture(icon, cardChunk('chara', whole2))),
    pictures: { main: icon },
    picturesIn: ['png', 'charx'],
  },
  'V3, CHARX with assets': {
    ...carried,
    card: linked,
    bytes: zip([
      { name: 'card.json', content: jsonBytes(linked) },
      { name: 'assets/icon/images/main.png', content: icon },
      { name: 'assets/emotion/images/joy.png', content: joy, method: 0 },
    ]),
  },
  'V3, PNG with assets': (() => {
    const card = withAssets([asset('icon', 'main', 'ccdefault:'), asset('emotion', 'joy', '__asset:1')])
    const chunk = pngChunk('tEXt', `chara-ext-asset_:1\0${joy.toString('base64')}`)
    return { ...carried, card, bytes: inPicture(icon, chunk, cardChunk('ccv3', card)) }
  })(),
  'V3, JSON with data URLs': (() => {
    const url = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`
    const card = withAssets([asset('icon', 'main', url(icon)), asset('emotion', 'joy', url(joy))])
    return { ...carried, card, bytes: jsonBytes(card) }
  })(),
}

function inPicture(shown: Buffer, ...chunks: readonly Buffer[]): Buffer {
  return Buffer.concat([shown.subarray(0, -12), ...chunks, shown.subarray(-12)])
}
