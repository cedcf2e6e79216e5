import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { pieceBytes } from '../../src/characters/pieces.ts'
import { cardChunk, png, pngChunk } from '../support/containers.ts'
import { eventually } from '../support/eventually.ts'
import { integrityOf } from '../support/kill-rounds.ts'
import { often } from '../support/often.ts'
import { folderForThisTest, preset, start } from '../support/preset-service.ts'
import { isOverPostgres } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

const headers = { authorization: `Bearer ${preset}` }
const pieces = 60

/** A card that is stored in `pieces` pieces. Each card is different. */
function cardOf(name: string): Buffer {
  const card = { spec: 'chara_card_v3', spec_version: '3.0', data: { name } }
  return png(cardChunk('ccv3', card), pngChunk('teXt', randomBytes((pieces - 1) * pieceBytes)))
}

/** Uploads a card. @returns the status; undefined if the service is killed meanwhile */
async function upload(url: string, card: Buffer): Promise<number | undefined> {
  const answer = await fetch(`${url}/characters`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'image/png' },
    body: Uint8Array.from(card),
  }).catch(() => undefined)
  return answer?.status
}

it('a card is stored whole or not at all if the service is killed during its upload, and unused pieces are removed', async () => {
  const folder = folderForThisTest()
  const cards = new Map<string, Buffer>()
  const acknowledged = new Set<string>()
  let service = await start(folder)
  const sql = await sqlForThisTest(folder)
  const count = async (from: string) =>
    Number((await sql.run<{ n: number }>(`SELECT count(*) AS n FROM ${from}`))[0]?.n)
  let leftovers = 0
  for (let round = 0; round < often(3); round++) {
    const name = `Round ${round}`
    const card = cardOf(name)
    cards.set(name, card)
    const before = await count('card_pieces')
    const sent = upload(service.url, card)
    const enough = before + Math.ceil(Math.random() * 0.9 * pieces)
    await eventually(async () => expect(await count('card_pieces')).toBeGreaterThanOrEqual(enough))
    service.process.kill('SIGKILL')
    await service.exited
    if ((await sent) === 201) acknowledged.add(name)
    leftovers += await count('uploads WHERE account IS NULL')
    // An hour passes.
    await sql.run('UPDATE uploads SET begun = begun - 3601 WHERE account IS NULL')
    service = await start(folder)
    await eventually(async () => expect(await count('uploads WHERE account IS NULL')).toBe(0))
  }
  const last = cardOf('Last')
  cards.set('Last', last)
  acknowledged.add('Last')
  expect(await upload(service.url, last)).toBe(201)
  let whole = 0
  for (const [name, card] of cards) {
    const answer = await fetch(`${service.url}/characters/${encodeURIComponent(name)}?format=png`, { headers })
    const body = Buffer.from(await answer.arrayBuffer())
    expect([name, answer.status]).toEqual([name, acknowledged.has(name) || answer.status === 200 ? 200 : 404])
    if (answer.status !== 200) continue
    expect(Buffer.compare(body, card)).toBe(0)
    whole++
  }
  expect(leftovers).toBeGreaterThan(0)
  expect(await count('card_pieces')).toBe(whole * pieces)
  service.process.kill('SIGKILL')
  await service.exited
  if (!isOverPostgres) expect(integrityOf(folder)).toBe('ok')
}, 120_000)
