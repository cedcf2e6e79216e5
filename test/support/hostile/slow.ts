import { cardChunk, png, pngChunk } from '../containers.ts'
import { inChunks } from './attacker.ts'
import { card } from './cards.ts'
import { hi, json, onBothEngines, type Row, times } from './row.ts'

/* Bodies that do not end or come in tiny pieces, and replies that are not read. The rows show how much memory such requests hold. */

const megabyte = 1024 ** 2
const largeCard = () => png(pngChunk('teXt', Buffer.alloc(15 * megabyte, 'a')), cardChunk('ccv3', card({})))

const unfinished = (name: string, path: string, method: string, type: string, body: () => Buffer): Row => ({
  name,
  isLargest: true,
  prepare: () => {
    const made = body()
    return (attacker) =>
      attacker.send(path, { method, body: made, headers: { 'content-type': type }, unfinishedFor: 3 })
  },
})

/** A row whose attackers send a body of 1 MB in a million chunks. */
const inBytes = (path: string, body: object): Row => ({
  name: `a body of 1 MB in chunks of one byte to ${path}`,
  isLargest: true,
  warm: (attacker) => attacker.post(path, json({ ...body, user: 'x' })),
  prepare: () => {
    const chunks = inChunks(json({ ...body, user: 'x'.repeat(1_000_000) }))
    return (attacker) => attacker.postChunks(path, chunks)
  },
})

/** A plant in a body of exactly the limit, with nearly as many values as a body may have. */
function largestPlant(): Buffer {
  const body = { name: 'Moss', values: times(95_000, () => 1), text: '' }
  return json({ ...body, text: 'x'.repeat(megabyte - json(body).length) })
}

export const held: readonly Row[] = [
  inBytes('/plants', { name: 'Moss' }),
  inBytes('/chat/completions', { model: 'relay', messages: hi }),
  inBytes('/characters', card({})),
  {
    name: 'a plant whose body has exactly the limit',
    isLargest: true,
    warm: (attacker) => attacker.post('/plants', json({ name: 'Moss' })),
    prepare: () => {
      const body = largestPlant()
      return (attacker) => attacker.post('/plants', body)
    },
  },
  ...onBothEngines(unfinished('unfinished uploads of 15 MB', '/characters/Moss', 'PUT', 'image/png', largeCard)),
  unfinished('unfinished chats of 8 MB', '/chat/completions', 'POST', 'application/json', () =>
    json({ model: 'none', messages: hi, user: 'x'.repeat(8_000_000) }),
  ),
  ...onBothEngines({
    name: 'unread exports of a card of 15 MB',
    isLargest: true,
    maxAttackers: 12,
    prepare: () => {
      const body = largeCard()
      return async (attacker) => {
        await attacker.put('/characters/Moss', body, 'image/png')
        await attacker.send('/characters/Moss?format=png', { unreadFor: 5 })
      }
    },
  }),
  {
    name: 'exports as CHARX of a picture of 15 MB',
    isLargest: true,
    prepare: () => {
      const body = largeCard()
      return async (attacker) => {
        await attacker.put('/characters/Moss', body, 'image/png')
        await attacker.send('/characters/Moss?format=charx')
      }
    },
  },
  ...onBothEngines({
    name: 'exports as CHARX of a card of 15 MB',
    isLargest: true,
    prepare: () => {
      const body = json(card({ description: 'moss and fern '.repeat(1_000_000) }))
      return async (attacker) => {
        await attacker.put('/characters/Moss', body)
        await attacker.send('/characters/Moss?format=charx')
        await attacker.send('/characters/Moss?format=v2')
      }
    },
  }),
]
