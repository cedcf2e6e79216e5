import { randomBytes } from 'node:crypto'
import { deflateRawSync, deflateSync } from 'node:zlib'
import { base64, cardChunk, png, pngChunk, zip } from '../containers.ts'
import { pictureCases } from '../pictures.ts'
import { card } from './cards.ts'
import { hi, json, onBothEngines, type Row, randomLetters, times } from './row.ts'

/* Cards as files: valid and broken PNG and CHARX files of the maximum size. */

const types = { json: 'application/json', png: 'image/png', charx: 'application/octet-stream' }
const megabyte = 1024 ** 2

const fileRow = (name: string, type: keyof typeof types, bytes: () => Buffer, more: Partial<Row> = {}): Row => ({
  name,
  isLargest: true,
  warm: (attacker) =>
    attacker.put(
      '/characters/Moss',
      type === 'png'
        ? png(cardChunk('ccv3', card({})))
        : type === 'charx'
          ? zip([{ name: 'card.json', content: JSON.stringify(card({})) }])
          : json(card({})),
      types[type],
    ),
  prepare: () => {
    const body = bytes()
    return (attacker) => attacker.put('/characters/Moss', body, types[type])
  },
  ...more,
})

const bigCard = (bytes: number) => card({ description: 'moss and fern '.repeat(bytes / 14) })
const packed = (bytes: number) => deflateSync(Buffer.alloc(bytes, '{"a":1} '))

/** Eight deflated blocks that have a table of codes and no content (RFC 1951, section 3.2.7). */
const blocksWithoutContent = Buffer.from(
  'BMCBAAAAAAAQ/9UkAA4EAAAAAID4ryYBcCAAAAAAAMR/NQmAAwEAAAAAIP6rSQAcCAAAAAAA8V9NAuBAAAAAAACI/2oSAAcCAAAAAED8V5MAOBAAAAAAAOK/mg==',
  'base64',
)

/** Uploads and deletes a card of 15 MB repeatedly. */
const removed = fileRow('a card of 15 MB that comes and goes', 'png', () => Buffer.alloc(0), {
  prepare: () => {
    const body = png(pngChunk('tEXt', Buffer.alloc(15 * megabyte, 'a')), cardChunk('ccv3', card({})))
    return async (attacker) => {
      for (let round = 0; round < 3; round++) {
        await attacker.put('/characters/Moss', body, types.png)
        await attacker.send('/characters/Moss', { method: 'DELETE' })
      }
    }
  },
})

/** Sets a photo of a plant, reads it twice, and deletes it. */
function photoRow(name: string, bytes: () => Buffer): Row {
  return {
    name,
    isLargest: true,
    prepare: () => {
      const body = bytes()
      return async (attacker) => {
        await attacker.post('/plants', json({ name: 'Moss', id: 7 }))
        await attacker.put('/plants/7/photo', body, types.png)
        for (let round = 0; round < 2; round++) await attacker.send('/plants/7/photo')
        await attacker.send('/plants/7/photo', { method: 'DELETE' })
      }
    },
  }
}

/** A JPEG whose one scan has so many bytes, each of which might begin a marker. */
const jpegOf = (bytes: number) => {
  const { bare } = pictureCases.JPEG
  return Buffer.concat([bare.subarray(0, -2), Buffer.alloc(bytes - bare.length, 'ff00', 'hex'), bare.subarray(-2)])
}

/** Uploads a card, and exports it in another format. */
function exportRow(name: string, type: 'png' | 'charx', format: string, bytes: () => Buffer): Row {
  return fileRow(name, type, bytes, {
    prepare: () => {
      const body = bytes()
      return async (attacker) => {
        await attacker.put('/characters/Moss', body, types[type])
        await attacker.send(`/characters/Moss?format=${format}`)
      }
    },
  })
}

/** A card of 15.7 MB in an archive of 90 kB. The random digits keep it below the ratio at which archives are refused. */
function packedCard(): Buffer {
  const fields = { creator_notes: 'a"中'.repeat(2_600_000), extensions: { x: randomBytes(61_000).toString('hex') } }
  const content = JSON.stringify(card(fields))
  return zip([{ name: 'card.json', content, packed: deflateRawSync(content) }])
}

/** An archive of 110 kB with a card of 15 MB. One letter outside Latin-1 doubles the memory of the card's texts. */
function packedGreeting(name: string): Buffer {
  const letters = randomBytes(55_000).toString('hex')
  const content = JSON.stringify(card({ name, alternate_greetings: [`Ā${letters}${'a'.repeat(15_000_000)}`] }))
  return zip([{ name: 'card.json', content }])
}

/** An archive of 62 kB, which is not counted, with an icon of 12 MB. The random bytes keep it below the ratio of zip bombs. */
function packedIcon(): Buffer {
  const content = Buffer.concat([png(), randomBytes(49_000), Buffer.alloc(11_900_000, 'moss')])
  const assets = [{ type: 'icon', name: 'main', ext: 'png', uri: 'embeded://icon' }]
  return zip([
    { name: 'card.json', content: JSON.stringify(card({ assets })) },
    { name: 'icon', content, packed: deflateRawSync(content, { level: 9 }) },
  ])
}

const assetAt = (uri: string) => ({ type: 'emotion', name: 'a', ext: 'bin', uri })
const iconAt = (uri: string) => ({ ...assetAt(uri), type: 'icon' })

export const files: readonly Row[] = [
  fileRow('a card of 16 million line breaks, with a fault at the end', 'json', () =>
    Buffer.from(`{${`${'\n'.repeat(200_000)}"a":0,`.repeat(79)}${'\n'.repeat(200_000)}x`),
  ),
  fileRow('a card with a number of 15 million digits', 'json', () => Buffer.from(`{"a":${'1'.repeat(15_000_000)}}`)),
  fileRow('a card whose property names have 7,900 escaped letters, and differ in the last ones', 'json', () =>
    Buffer.from(`{${times(980, (index) => `"${'\\"'.repeat(7900)}${index}":0`).join()}}`),
  ),
  fileRow('a PNG of 19,900 chunks', 'png', () =>
    png(...times(19_900, () => pngChunk('tEXt', 'a\0b')), cardChunk('ccv3', card({}))),
  ),
  fileRow('a PNG of 1,300,000 chunks', 'png', () => {
    const chunk = pngChunk('tEXt')
    return png(Buffer.concat(times(1_300_000, () => chunk)))
  }),
  fileRow('a PNG of 300 cards of 50 kB each, broken', 'png', () => {
    const chunk = pngChunk('tEXt', `ccv3\0${base64({ spec: 'nothing', text: 'x'.repeat(37_000) })}`)
    return png(...times(300, () => chunk))
  }),
  ...onBothEngines(
    fileRow('a PNG of 15 MB beside its card', 'png', () =>
      png(pngChunk('tEXt', Buffer.alloc(15 * megabyte, 'a')), cardChunk('ccv3', card({}))),
    ),
  ),
  ...onBothEngines({
    name: 'a PNG of 15 MB that is stored already',
    isLargest: true,
    prepare: () => {
      const body = png(pngChunk('tEXt', Buffer.alloc(15 * megabyte, 'a')), cardChunk('ccv3', card({})))
      return async (attacker) => {
        const put = () => attacker.put('/characters/Moss', body, types.png)
        await put()
        await put()
      }
    },
  }),
  ...onBothEngines(fileRow('a PNG with a card of 11 MB', 'png', () => png(cardChunk('ccv3', bigCard(11_000_000))))),
  fileRow('a PNG with 50 packed chunks of 16 MB each', 'png', () => {
    const chunk = pngChunk('zTXt', Buffer.concat([Buffer.from('ccv3\0\0', 'latin1'), packed(15_900_000)]))
    return png(...times(50, () => chunk))
  }),
  fileRow('a PNG with a packed chunk of 15 MB without content', 'png', () =>
    png(
      pngChunk(
        'zTXt',
        Buffer.concat([Buffer.from('ccv3\0\0\x78\x9c', 'latin1'), Buffer.alloc(15 * megabyte, blocksWithoutContent)]),
      ),
    ),
  ),
  fileRow('a CHARX whose card has 15 MB of packed bytes without content', 'charx', () => {
    const content = JSON.stringify(card({}))
    const packed = Buffer.concat([Buffer.alloc(91 * 170_000, blocksWithoutContent), deflateRawSync(content)])
    return zip([{ name: 'card.json', content, packed }])
  }),
  fileRow('a CHARX of 90 kB whose card of 15.7 MB is shown', 'charx', packedCard, {
    prepare: () => {
      const body = packedCard()
      return async (attacker) => {
        await attacker.put('/characters/Moss', body, types.charx)
        for (let round = 0; round < 3; round++) await attacker.send('/characters/Moss')
      }
    },
  }),
  fileRow('ten CHARX of 110 kB whose cards have 15 MB, played', 'charx', () => Buffer.alloc(0), {
    prepare: () => {
      const bodies = times(10, (index) => packedGreeting(`Moss${index}`))
      return async (attacker) => {
        for (const [index, body] of bodies.entries()) {
          const character = `Moss${index}`
          await attacker.put(`/characters/${character}`, body, types.charx)
          await attacker.post('/chat/prompt', json({ model: 'understudy', character, greeting: -1, messages: hi }))
        }
      }
    },
  }),
  fileRow('a CHARX of 62 kB whose icon has 12 MB, eight at once', 'charx', packedIcon, {
    prepare: () => {
      const body = packedIcon()
      return async (attacker) => {
        await Promise.all(times(8, () => attacker.post('/characters?dry_run=true', body, types.charx)))
        await attacker.put('/characters/Moss', body, types.charx)
        for (let round = 0; round < 3; round++) await attacker.send('/characters/Moss/avatar')
      }
    },
  }),
  fileRow('avatars of a PNG of 19,900 empty chunks', 'png', () => Buffer.alloc(0), {
    prepare: () => {
      const body = png(...times(19_900, () => pngChunk('IDAT')), cardChunk('ccv3', card({})))
      return async (attacker) => {
        await attacker.put('/characters/Moss', body, types.png)
        await attacker.send('/characters/Moss/avatar')
      }
    },
  }),
  fileRow('a CHARX of 3,991 files', 'charx', () =>
    zip([
      { name: 'card.json', content: JSON.stringify(card({})) },
      ...times(3990, (index) => ({ name: `assets/${index}`, content: 'a' })),
    ]),
  ),
  fileRow('a CHARX of 3,900 files whose names of 16,390 bytes differ at the end', 'charx', () =>
    zip([
      { name: 'card.json', content: JSON.stringify(card({ assets: [iconAt('embeded://assets/icon.png')] })) },
      ...times(3900, (index) => ({ name: String(index).padStart(16_390, 'a'), localName: '', content: '', method: 0 })),
    ]),
  ),
  ...onBothEngines(
    fileRow('a CHARX of 15 MB beside its card', 'charx', () =>
      zip([
        { name: 'card.json', content: JSON.stringify(card({})) },
        { name: 'assets/a', content: Buffer.alloc(15 * megabyte, 'a'), method: 0 },
      ]),
    ),
  ),
  ...onBothEngines(removed),
  ...onBothEngines(photoRow('a photo of 8 MiB that comes and goes', () => jpegOf(8 * megabyte))),
  photoRow('a photo of 19,000 parts', () => png(...times(19_000, () => pngChunk('IDAT', Buffer.alloc(400))))),
  fileRow('a CHARX whose card of 200 MB is compressed', 'charx', () =>
    zip([{ name: 'card.json', content: Buffer.alloc(200 * megabyte) }]),
  ),
  fileRow('a CHARX with a card of 15 MB', 'charx', () =>
    zip([{ name: 'card.json', content: JSON.stringify(card({ description: randomLetters(15_000_000) })) }]),
  ),
  fileRow('a file of 15 MB that is no card', 'charx', () => Buffer.alloc(15 * megabyte, 'PK\x05\x06')),
  exportRow('exports of an archive whose 10,000 assets name a file of a false size', 'charx', 'json', () => {
    const assets = times(10_000, () => assetAt('embeded://a'))
    const content = Buffer.alloc(3_000_000, 'ab')
    return zip([
      { name: 'card.json', content: JSON.stringify(card({ assets })), method: 0 },
      { name: 'a', content, size: 2 ** 31 },
    ])
  }),
  exportRow('exports as CHARX of a PNG whose 60 assets name the same 5 MB', 'png', 'charx', () => {
    const chunk = pngChunk('tEXt', `chara-ext-asset_:a\0${Buffer.from(randomLetters(5_000_000)).toString('base64')}`)
    return png(chunk, cardChunk('ccv3', card({ assets: times(60, () => assetAt('__asset:a')) })))
  }),
  fileRow('JSON of 15 MB of open brackets', 'json', () => Buffer.alloc(15_000_000, '[')),
  fileRow('JSON of 15 MB of spaces', 'json', () => Buffer.alloc(15 * megabyte, ' ')),
]
