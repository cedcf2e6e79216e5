import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { cardOf } from '../../src/characters/cards/kept-card.ts'
import { keepBookJob, keepCardJob, runOnCard, uploadJob } from '../../src/characters/library/jobs.ts'
import { exportJob } from '../../src/characters/reply-jobs.ts'
import { inlineUnits } from '../../src/work/fuel.ts'
import { WorkerPool } from '../../src/work/pool.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { cardOfV3, jsonBytes } from '../support/cards.ts'
import { cardChunk, png, pngChunk, zip } from '../support/containers.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { unitsOf } from '../support/units.ts'

const cardWith = (data: object) => ({ ...cardOfV3, data: { ...cardOfV3.data, ...data } })
const noise = randomBytes(300_000)
const icon = { type: 'icon', name: 'main', ext: 'png', uri: 'embeded://i.png' }
const picture = png(pngChunk('IDAT', noise))

/** Cards that are read in workers, by format. */
const cards = {
  json: jsonBytes(cardWith({ description: noise.toString('base64') })),
  png: png(pngChunk('IDAT', noise), cardChunk('ccv3', cardWith({}))),
  charx: zip([
    { name: 'card.json', content: jsonBytes(cardWith({ assets: [icon] })) },
    { name: 'i.png', content: picture },
  ]),
}

describe('a card of more than 128 KiB, or in a picture or an archive', () => {
  let service: TestService
  beforeAll(async () => {
    service = await startTestService()
  })
  afterAll(() => service?.close())

  test.each(Object.entries(cards))('is stored, shown and exported by workers: %s', async (format, bytes) => {
    const headers = { 'content-type': 'application/octet-stream' }
    const put = { method: 'PUT', body: new Uint8Array(bytes), headers }
    const uploaded = await service.request(`/characters/${format}`, put)
    expect([uploaded.status, await uploaded.json()]).toMatchObject([201, { greetings: 1, spec: 'chara_card_v3' }])
    const own = await service.request(`/characters/${format}?format=${format}`)
    expect(Buffer.from(await own.arrayBuffer()).equals(bytes)).toBe(true)
    const shown = await service.request(`/characters/${format}`)
    expect([shown.status, await shown.json()]).toMatchObject([200, { name: format, has_avatar: format !== 'json' }])
    const other = await service.request(`/characters/${format}?format=v2`)
    expect([other.status, await other.json()]).toMatchObject([200, { spec: 'chara_card_v2' }])
    const avatar = await service.request(`/characters/${format}/avatar`)
    expect(avatar.status).toBe(format === 'json' ? 404 : 200)
    if (format === 'json') return
    expect(Buffer.from(await avatar.arrayBuffer()).includes(noise)).toBe(true)
    const known = { headers: { 'if-none-match': String(avatar.headers.get('etag')) } }
    expect((await service.request(`/characters/${format}/avatar`, known)).status).toBe(304)
  })

  test('that is refused in a worker gets the same error as a small one', async () => {
    const send = async (body: string) => {
      const reply = await service.request('/characters', { method: 'POST', body })
      const told: unknown = await reply.json()
      return [reply.status, told]
    }
    const refusal = await send('{"a":1}')
    expect(refusal).toMatchObject([400, { error: { code: 'card_invalid' } }])
    expect(await send(`{"a":"${'x'.repeat(200_000)}"}`)).toEqual(refusal)
  })
})

describe('the jobs of cards', () => {
  test.each(Object.entries(cards))('give the same in a worker and here: %s', async (_format, bytes) => {
    const pool = new WorkerPool()
    onTestFinished(() => pool.close())
    const options = { account: 1, param: 'card' }
    expect(await pool.run(uploadJob, bytes, options)).toEqual(uploadJob.run(bytes))
    const [kept, here] = [await pool.run(keepCardJob, bytes, options), keepCardJob.run(bytes)]
    expect(Buffer.from(kept.document).equals(here.document)).toBe(true)
    expect({ ...kept, document: null }).toEqual({ ...here, document: null })
    expect(kept.document.buffer).toBeInstanceOf(SharedArrayBuffer)
    expect(cardOf(kept).name).toBe('Ada')
    for (const format of ['v2', 'png', 'charx'] as const) {
      const input = { bytes, format, now: 0 }
      const [file, same] = [await pool.run(exportJob, input, options), exportJob.run(input)]
      expect(file.losses).toEqual(same.losses)
      expect(Buffer.compare(file.bytes ?? bytes, same.bytes ?? bytes)).toBe(0)
    }
  })

  const keys = (key: string) => ({ character_book: { entries: [{ keys: [key], content: 'x', use_regex: true }] } })

  test.each<[string, object, boolean]>([
    ['small', {}, false],
    ['with a pattern', keys('/a.c/'), true],
    ['with a pattern that is refused', keys('/(?=a)/'), false],
    ['of more than 128 KiB', { description: 'x'.repeat(128 * 1024) }, true],
    ['slow to read', { extensions: { x: Array.from({ length: 60_000 }, () => 1) } }, true],
  ])('know whether a card must be read in workers: %s', (_what, data, isHeavy) => {
    const work = workAtOnce()
    expect(work.run('card', keepCardJob, jsonBytes(cardWith(data))).isHeavy).toBe(isHeavy)
    const { character_book = { entries: [] }, ...other } = { ...cardWith(data).data }
    const book = jsonBytes({ ...character_book, extensions: other })
    expect(work.run('lorebook', keepBookJob, book).isHeavy).toBe(isHeavy)
  })

  test('run here only for JSON of at most 128 KiB', () => {
    const ranIn = (bytes: Buffer) => {
      let place = ''
      const work = workAtOnce()
      const run: typeof work.run = (...call) => {
        place = 'here'
        return work.run(...call)
      }
      const runInPool: typeof work.runInPool = (...call) => {
        place = 'pool'
        return work.runInPool(...call)
      }
      void runOnCard({ ...work, run, runInPool }, 'card', uploadJob, bytes, bytes)
      return place
    }
    const small = png(cardChunk('ccv3', cardOfV3))
    expect([jsonBytes(cardOfV3), small, ...Object.values(cards)].map(ranIn)).toEqual([
      'here',
      ...['pool', 'pool', 'pool', 'pool'],
    ])
  })

  test.each<[string, object]>([
    ['60,000 numbers', { extensions: { x: Array.from({ length: 60_000 }, () => 1) } }],
    [
      '4,000 entries',
      { character_book: { entries: Array.from({ length: 4000 }, () => ({ keys: ['k'], content: 'x' })) } },
    ],
    ['20,000 assets', { assets: Array.from({ length: 20_000 }, () => ({})) }],
  ])('spend more units than small work has, for a small card with %s', (_what, data) => {
    const bytes = jsonBytes(cardWith(data))
    expect(bytes.length).toBeLessThan(128 * 1024)
    expect(unitsOf(() => uploadJob.run(bytes))).toBeGreaterThan(inlineUnits)
  })
})
