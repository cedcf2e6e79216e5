import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { deflateSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cardOfV3, jsonBytes } from '../support/cards.ts'
import { base64, cardChunk, chunksIn, png, pngChunk, zip } from '../support/containers.ts'
import { expectError } from '../support/http.ts'
import { pictureCases } from '../support/pictures.ts'
import { startTestService, type TestService, temporaryFolder } from '../support/service.ts'

const secret = 'OPERATORS-SECRET'
let service: TestService
let folder: ReturnType<typeof temporaryFolder>
let bob: string

const named = (name: string, data: object = {}) => ({
  ...cardOfV3,
  data: { ...cardOfV3.data, description: secret, name, ...data },
})
const icon = (uri: string, more: object = {}) => ({ type: 'icon', name: 'main', ext: 'png', uri, ...more })
const picture = png()

const [jpeg, gif, webp] = [pictureCases.JPEG.bare, pictureCases.GIF.bare, pictureCases.WebP.bare]
const bomb = png().fill(0x7f, 16, 24)

/** A picture that contains a card in every possible place, also after the end of the picture. */
function full(card: object): Buffer {
  const text = deflateSync(jsonBytes(card)).toString('latin1')
  const chunks = [
    cardChunk('chara', card),
    cardChunk('ccv3', card),
    pngChunk('zTXt', `Comment\0\0${text}`),
    pngChunk('iTXt', `x\0\0\0\0\0${JSON.stringify(card)}`),
    pngChunk('eXIf', JSON.stringify(card)),
    pngChunk('tEXt', `Raw\0${JSON.stringify(card)}`),
    pngChunk('chRd', JSON.stringify(card)),
    pngChunk('gAMA', Buffer.from('0000b18f', 'hex')),
  ]
  return Buffer.concat([png(...chunks), jsonBytes(card)])
}

function charx(name: string, data: object, ...files: readonly (readonly [string, Buffer])[]): Buffer {
  const members = files.map(([path, content], index) => ({ name: path, content, method: index % 2 === 0 ? 8 : 0 }))
  return zip([{ name: 'card.json', content: jsonBytes(named(name, data)) }, ...members])
}

beforeAll(async () => {
  folder = temporaryFolder()
  mkdirSync(join(folder.path, 'characters'), { recursive: true })
  writeFileSync(join(folder.path, 'characters', 'mallow.png'), full(named('Mallow')))
  service = await startTestService({ DATA_DIR: folder.path })
  bob = await service.makeKey('bob', ['chat', 'characters:write'])
})

afterAll(async () => {
  await service.close()
  folder.remove()
})

function call(
  path: string,
  init: { method?: string; body?: Uint8Array<ArrayBuffer>; headers?: Record<string, string> } = {},
) {
  const headers = { authorization: `Bearer ${bob}`, 'content-type': 'application/octet-stream', ...init.headers }
  return service.request(path, { ...init, headers })
}

async function put(name: string, bytes: Buffer): Promise<{ readonly warnings: readonly string[] }> {
  const response = await call(`/characters/${name}`, { method: 'PUT', body: new Uint8Array(bytes) })
  expect(response.status).toBeLessThan(300)
  return JSON.parse(await response.text())
}

async function listed(name: string): Promise<boolean | undefined> {
  const { data }: { data: { name: string; has_avatar?: boolean }[] } = JSON.parse(
    await (await call('/characters')).text(),
  )
  const { has_avatar }: { has_avatar?: boolean } = JSON.parse(await (await call(`/characters/${name}`)).text())
  const inList = data.find((each) => each.name === name)?.has_avatar
  expect(has_avatar).toBe(inList)
  return inList
}

test("every key gets the picture of the operator's card, without any text of the card", async () => {
  const response = await call('/characters/mallow/avatar')
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/png'])
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  const bytes = Buffer.from(await response.arrayBuffer())
  const chunks = chunksIn(bytes)
  expect(chunks.map(({ type }) => type)).toEqual(['IHDR', 'IDAT', 'gAMA', 'IEND'])
  expect(chunks.every(({ isSound }) => isSound)).toBe(true)
  const text = bytes.toString('latin1')
  for (const hidden of [secret, base64(named('Mallow')).slice(0, 40), 'Mallow', 'chara', 'ccv3'])
    expect(text).not.toContain(hidden)
  expect(full(named('Mallow')).toString('latin1')).toContain(secret)
  expect(await listed('Mallow')).toBe(true)
})

test('a known ETag gets a 304, until the card changes', async () => {
  await put('Tagged', png(cardChunk('ccv3', named('Tagged'))))
  const first = await call('/characters/Tagged/avatar')
  const tag = first.headers.get('etag') ?? ''
  expect(tag).toMatch(/^"avatar-2-[0-9a-f]{64}"$/)
  const again = await call('/characters/Tagged/avatar', { headers: { 'if-none-match': `W/${tag}` } })
  expect([again.status, again.headers.get('etag'), await again.text()]).toEqual([304, tag, ''])
  await put('Tagged', png(cardChunk('ccv3', named('Tagged', { creator: 'x' }))))
  const other = await call('/characters/Tagged/avatar', { headers: { 'if-none-match': tag } })
  expect(other.status).toBe(200)
})

test.each<[string, Buffer, string, Buffer]>([
  [
    'an archive, by its link',
    charx('A', { assets: [icon('embeded://i/ü.png')] }, ['i/ü.png', picture]),
    'image/png',
    picture,
  ],
  [
    'an archive, a JPEG',
    charx('A', { assets: [icon('embedded://i.png')] }, ['x', gif], ['i.png', jpeg]),
    'image/jpeg',
    jpeg,
  ],
  ['an archive, a GIF', charx('A', { assets: [icon('embeded://i')] }, ['i', gif]), 'image/gif', gif],
  ['an archive, a WebP', charx('A', { assets: [icon('embeded://i')] }, ['i', webp]), 'image/webp', webp],
  [
    'the icon that is named main among several icons',
    charx('A', { assets: [icon('embeded://a', { name: 'other' }), icon('embeded://b')] }, ['a', gif], ['b', webp]),
    'image/webp',
    webp,
  ],
  [
    'a data URL',
    jsonBytes(named('A', { assets: [icon(`data:image/gif;base64,${gif.toString('base64')}`)] })),
    'image/gif',
    gif,
  ],
  [
    'a chunk of the picture',
    png(
      pngChunk('tEXt', `chara-ext-asset_:7\0${webp.toString('base64')}`),
      cardChunk('ccv3', named('A', { assets: [icon('__asset:7')] })),
    ),
    'image/webp',
    webp,
  ],
  [
    'the picture that contains the card, if the icon is on another host',
    png(cardChunk('ccv3', named('A', { assets: [icon('https://x.example/a.png')] }))),
    'image/png',
    picture,
  ],
])('the avatar comes from %s', async (_what, bytes, type, expected) => {
  await put('Shown', bytes)
  const response = await call('/characters/Shown/avatar')
  expect([response.status, response.headers.get('content-type')]).toEqual([200, type])
  expect(Buffer.from(await response.arrayBuffer()).equals(expected)).toBe(true)
  expect(await listed('Shown')).toBe(true)
})

test.each(Object.entries(pictureCases))(
  'an avatar as %s has no metadata and nothing after its end, but its orientation and colour profile',
  async (_name, { type, full, shown }) => {
    await put('Photographed', charx('A', { assets: [icon('embeded://i')] }, ['i', full]))
    const response = await call('/characters/Photographed/avatar')
    expect([response.status, response.headers.get('content-type')]).toEqual([200, type])
    expect(Buffer.from(await response.arrayBuffer()).equals(shown)).toBe(true)
  },
)

test.each<[string, Buffer, string, RegExp | undefined]>([
  ['no picture', jsonBytes(named('A')), 'avatar_not_found', undefined],
  [
    'a link to another host',
    jsonBytes(named('A', { assets: [icon('https://x.example/a.png')] })),
    'avatar_not_found',
    undefined,
  ],
  ['a link to nothing', charx('A', { assets: [icon('embeded://none')] }), 'avatar_not_found', undefined],
  [
    'SVG',
    charx('A', { assets: [icon('embeded://i.png')] }, [
      'i.png',
      Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'),
    ]),
    'avatar_unusable',
    /not a picture/,
  ],
  [
    'a text',
    charx('A', { assets: [icon('embeded://i.png')] }, ['i.png', Buffer.from('text')]),
    'avatar_unusable',
    /not a picture/,
  ],
  [
    'a bomb',
    charx('A', { assets: [icon('embeded://i.png')] }, ['i.png', bomb]),
    'avatar_unusable',
    /2139062143 × 2139062143 pixels/,
  ],
  [
    'a picture of no size',
    charx('A', { assets: [icon('embeded://i')] }, ['i', Buffer.from(png()).fill(0, 16, 24)]),
    'avatar_unusable',
    /not a picture/,
  ],
  [
    'half a picture',
    charx('A', { assets: [icon('embeded://i')] }, ['i', picture.subarray(0, 50)]),
    'avatar_unusable',
    /cut off or damaged/,
  ],
  [
    'half a JPEG',
    charx('A', { assets: [icon('embeded://i')] }, [
      'i',
      jpeg.subarray(0, jpeg.indexOf(Buffer.from('ffc4', 'hex')) + 9),
    ]),
    'avatar_unusable',
    /cut off or damaged/,
  ],
  [
    'a packed bomb',
    charx('A', { assets: [icon('embeded://i')] }, ['i', Buffer.alloc(5_000_000)]),
    'avatar_not_found',
    undefined,
  ],
])('there is no avatar for %s; the upload warns of an unusable picture', async (_what, bytes, code, warning) => {
  const { warnings } = await put('Hidden', bytes)
  expect(warnings).toEqual(warning === undefined ? [] : [expect.stringMatching(warning)])
  const refusal = await expectError(await call('/characters/Hidden/avatar'), 'chat', 404)
  expect(refusal.code).toBe(code)
  if (warning) expect(refusal.message).toMatch(warning)
  expect(await listed('Hidden')).toBe(false)
})

test('an unknown character has no avatar, and keys that may not read characters get a 403', async () => {
  const refusal = await expectError(await call('/characters/Nobody/avatar'), 'chat', 404)
  expect(refusal.code).toBe('character_not_found')
  const any = { headers: { 'if-none-match': '*' } }
  expect((await expectError(await call('/characters/Fern/avatar', any), 'chat', 404)).code).toBe('avatar_not_found')
  expect((await call('/characters/Mallow/avatar', any)).status).toBe(304)
  const plants = await service.makeKey('plants', ['plants:read'])
  await expectError(await call('/characters/Mallow/avatar', { headers: { authorization: plants } }), 'chat', 403)
  const reader = await service.makeKey('reader', ['chat'])
  expect((await call('/characters/Mallow/avatar', { headers: { authorization: reader } })).status).toBe(200)
})
