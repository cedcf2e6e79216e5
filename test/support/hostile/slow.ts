import { cardChunk, png, pngChunk } from '../containers.ts'
import { card } from './cards.ts'
import { hi, json, onBothEngines, type Row } from './row.ts'

/* Bodies that do not end and replies that are not read. The rows show how much memory such requests hold. */

const megabyte = 1024 ** 2
const largeCard = () => png(pngChunk('teXt', Buffer.alloc(59 * megabyte, 'a')), cardChunk('ccv3', card({})))

const unfinished = (
  name: string,
  path: string,
  method: string,
  type: string,
  body: () => Buffer,
  more: Partial<Row>,
): Row => ({
  name,
  isOfIssue: true,
  isLargest: true,
  prepare: () => {
    const made = body()
    return (attacker) =>
      attacker.send(path, { method, body: made, headers: { 'content-type': type }, unfinishedFor: 3 })
  },
  ...more,
})

export const held: readonly Row[] = [
  ...onBothEngines(
    unfinished('unfinished uploads of 60 MB', '/characters/Moss', 'PUT', 'image/png', largeCard, { maxAttackers: 32 }),
  ),
  unfinished(
    'unfinished chats of 8 MB',
    '/chat/completions',
    'POST',
    'application/json',
    () => json({ model: 'none', messages: hi, user: 'x'.repeat(8_000_000) }),
    { maxAttackers: 60 },
  ),
  ...onBothEngines({
    name: 'unread exports of a card of 60 MB',
    isOfIssue: true,
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
    name: 'exports as CHARX of a picture of 60 MB',
    isLargest: true,
    maxAttackers: 16,
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
    maxAttackers: 40,
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
