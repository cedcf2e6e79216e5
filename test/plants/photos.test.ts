import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { PhotoFacts } from '../../src/plants/photo.ts'
import { conservatory } from '../support/command.ts'
import { png, pngChunk } from '../support/containers.ts'
import { expectError } from '../support/http.ts'
import { pictureCases, secret, segment } from '../support/pictures.ts'
import { newCaller, plantInBulk, plantServiceForThisFile, service, sql } from '../support/plant-callers.ts'
import { startTestService } from '../support/service.ts'
import { onceKnown, settingsOf } from '../support/test-database.ts'
import { everythingKept } from '../support/test-sql.ts'

plantServiceForThisFile()

const { JPEG, PNG, WebP, GIF } = pictureCases
const maxBytes = 8 * 1024 ** 2

/** A JPEG of exactly so many bytes, most of them pixels. */
function jpegOf(bytes: number): Buffer {
  const filling = Buffer.alloc(bytes - JPEG.bare.length, 0x55)
  return Buffer.concat([JPEG.bare.subarray(0, -2), filling, JPEG.bare.subarray(-2)])
}

/** The body of the reply to a PUT. */
async function facts(reply: Response): Promise<PhotoFacts> {
  expect(reply.status).toBe(200)
  return JSON.parse(await reply.text())
}

async function scene() {
  const caller = await newCaller()
  await plantInBulk(caller, [
    { id: 7, name: 'Fern' },
    { id: 8, name: 'Moss' },
  ])
  const put = (body: Uint8Array, headers: Record<string, string> = {}, path = '/plants/7/photo') =>
    caller.send(path, { method: 'PUT', body: new Uint8Array(body), headers })
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    caller.send('/plants/7/photo', { method, headers })
  const used = async () => {
    const { data }: { data: { limit: string; used: number }[] } = JSON.parse(
      await (await caller.send('/limits')).text(),
    )
    return data.find(({ limit }) => limit === 'photo_bytes')?.used
  }
  const version = async () => {
    const [row] = await sql.run<{ version: number; updated: number }>(
      'SELECT version, updated FROM plants WHERE account = ? AND id = 7',
      caller.account,
    )
    return row
  }
  return { caller, put, get, used, version }
}

describe('a photo', () => {
  it.each([JPEG, PNG, WebP])(
    'of $type is stored without metadata, and sent with its type, size and ETag',
    async (picture) => {
      const { put, get } = await scene()
      // The name and the content type do not decide about the format.
      const { digest, ...others } = await facts(await put(picture.full, { 'content-type': 'application/json' }))
      expect(others).toEqual({ type: picture.type, bytes: picture.shown.length })
      expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/)
      const there = await get()
      expect(Buffer.from(await there.arrayBuffer())).toEqual(picture.shown)
      expect(Object.fromEntries(there.headers)).toMatchObject({
        'content-type': picture.type,
        'content-length': String(picture.shown.length),
        etag: `"${digest}"`,
        'x-content-type-options': 'nosniff',
        'cache-control': 'private, no-cache',
      })
      const head = await get({}, 'HEAD')
      const { date: _date, 'x-request-id': _id, ...headers } = Object.fromEntries(head.headers)
      expect({ status: head.status, headers, body: await head.text() }).toMatchObject({
        status: 200,
        headers: { 'content-type': picture.type, 'content-length': String(picture.shown.length) },
        body: '',
      })
      const same = await get({ 'if-none-match': `"other", "${digest}"` })
      expect({ status: same.status, etag: same.headers.get('etag'), body: await same.text() }).toEqual({
        status: 304,
        etag: `"${digest}"`,
        body: '',
      })
      expect((await get({ 'if-none-match': '"other"' })).status).toBe(200)
    },
  )

  it('raises the version of the plant when it is set, replaced and deleted, but not when it is sent again', async () => {
    const { caller, put, get, used, version } = await scene()
    expect(await version()).toMatchObject({ version: 1, updated: 0 })
    const photo = await facts(await put(PNG.bare))
    const plant = await caller.send('/plants/7?include=details')
    expect(JSON.parse(await plant.text())).toMatchObject({ name: 'Fern', photo })
    const first = await version()
    expect(plant.headers.get('etag')).toBe(`"${first?.version}.details"`)
    expect(first).toMatchObject({ version: expect.any(Number), updated: expect.closeTo(Date.now() / 1000, -2) })
    expect(await used()).toBe(PNG.bare.length)
    expect((await put(PNG.bare)).status).toBe(200)
    expect(await version()).toEqual(first)
    expect((await put(WebP.bare)).status).toBe(200)
    const second = await version()
    expect(await used()).toBe(WebP.bare.length)
    expect((await get()).headers.get('content-type')).toBe('image/webp')
    const gone = await caller.send('/plants/7/photo', { method: 'DELETE' })
    expect([gone.status, await gone.text()]).toEqual([204, ''])
    const versions = [1, ...[first, second, await version()].map((row) => Number(row?.version))]
    expect(versions).toEqual([...new Set(versions)].toSorted((one, other) => one - other))
    expect(await used()).toBe(0)
    await expectError(await get(), 'plants', 404)
    await expectError(await caller.send('/plants/7/photo', { method: 'DELETE' }), 'plants', 404)
    expect(await (await caller.send('/plants/7?include=details')).text()).not.toContain('photo')
    expect(await sql.run('SELECT * FROM plant_details WHERE account = ?', caller.account)).toEqual([])
  })

  it('frees its bytes when its plant is deleted', async () => {
    const { caller, put, used } = await scene()
    expect((await put(JPEG.bare)).status).toBe(200)
    expect((await caller.send('/plants/7', { method: 'DELETE' })).status).toBe(204)
    expect(await used()).toBe(0)
  })

  it('is removed with its account', async () => {
    const { caller, put } = await scene()
    expect((await put(JPEG.bare)).status).toBe(200)
    const [account] = await sql.run<{ name: string }>('SELECT name FROM accounts WHERE id = ?', caller.account)
    const deletion = ['accounts', 'delete', account?.name ?? '']
    expect(await conservatory(deletion, await settingsOf(service.dataDirectory))).toMatchObject({ code: 0 })
    expect(await sql.run('SELECT id FROM photos WHERE owner = ?', caller.account)).toEqual([])
    expect(await sql.run('SELECT photo FROM photo_pieces WHERE photo NOT IN (SELECT id FROM photos)')).toEqual([])
  })

  it('of a shared or unknown plant is a 404, and a key needs the scopes of plants', async () => {
    const { caller, put, get } = await scene()
    const stranger = await newCaller()
    await expectError(await stranger.send('/plants/7/photo'), 'plants', 404)
    await expectError(await get(), 'plants', 404)
    await expectError(await put(PNG.bare, {}, '/plants/9/photo'), 'plants', 404)
    await expectError(await put(PNG.bare, {}, '/plants/x/photo'), 'plants', 400)
    await expectError(await caller.send('/plants/7/photo', { method: 'POST' }), 'plants', 405)
    const reader = await service.makeKey('reader', ['plants:read'])
    const headers = { authorization: `Bearer ${reader}` }
    await expectError(await put(PNG.bare, headers), 'plants', 403)
    const writer = await service.makeKey('writer', ['plants:write'])
    await expectError(await get({ authorization: `Bearer ${writer}` }), 'plants', 403)
    await expectError(await get({ authorization: 'Bearer nobody' }), 'plants', 401)
  })
})

const zip = Buffer.from('504b0304140000000800', 'hex')
const wide = Buffer.concat([PNG.bare.subarray(0, 16), Buffer.from('00010000', 'hex'), PNG.bare.subarray(20)])

it.each<readonly [what: string, status: number, body: Buffer, says: RegExp]>([
  ['a ZIP', 415, zip, /no whole JPEG, PNG or WebP/],
  ['a GIF', 415, GIF.bare, /no whole JPEG, PNG or WebP/],
  ['a text', 415, Buffer.from('{"name": "Fern"}'), /no whole JPEG, PNG or WebP/],
  ['an SVG', 415, Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), /no whole JPEG, PNG or WebP/],
  ['the first bytes of a picture', 415, PNG.bare.subarray(0, 20), /no whole JPEG, PNG or WebP/],
  ['an empty body', 400, Buffer.alloc(0), /The body is empty/],
  ['a PNG that is cut off', 400, PNG.bare.subarray(0, -20), /cut off or damaged/],
  ['a WebP that is cut off', 400, WebP.full.subarray(0, -40), /cut off or damaged/],
  [
    'a JPEG with a damaged part',
    400,
    Buffer.concat([JPEG.bare.subarray(0, -2), segment(0xfe, secret).subarray(0, 5)]),
    /cut off or damaged/,
  ],
  ['a picture of too many pixels', 400, wide, /65536 × .* pixels/],
  [
    'a picture of too many parts',
    400,
    png(...Array.from({ length: 20_001 }, () => pngChunk('tEXt', 'a'))),
    /more than 20000 parts/,
  ],
  ['a body over 8 MiB', 413, jpegOf(maxBytes + 1), /larger than this route accepts/],
])('%s is no photo, and nothing is written', async (_what, status, body, says) => {
  const { put } = await scene()
  const before = await everythingKept(sql)
  const { message } = await expectError(await put(body), 'plants', status)
  expect(message).toMatch(says)
  expect(await everythingKept(sql)).toEqual(before)
})

it('a photo that has lost a piece in a damaged database is a 500, and not an endless search', async () => {
  const { caller, put, get } = await scene()
  expect((await put(JPEG.bare)).status).toBe(200)
  await sql.run('DELETE FROM photo_pieces WHERE photo IN (SELECT id FROM photos WHERE owner = ?)', caller.account)
  await expectError(await get(), 'plants', 500)
})

it('a photo of 8 MiB is stored in pieces, and comes back whole', async () => {
  const { caller, put, get } = await scene()
  const pixels = Buffer.from(randomBytes(maxBytes - JPEG.bare.length).map((byte) => (byte === 0xff ? 0xfe : byte)))
  const large = Buffer.concat([JPEG.bare.subarray(0, -2), pixels, JPEG.bare.subarray(-2)])
  expect(await facts(await put(large))).toMatchObject({ bytes: maxBytes })
  expect(Buffer.from(await (await get()).arrayBuffer()).equals(large)).toBe(true)
  const pieces = await sql.run<{ bytes: number }>(
    'SELECT octet_length(photo_pieces.bytes) AS bytes FROM photo_pieces JOIN photos ON photo = id WHERE owner = ?',
    caller.account,
  )
  expect(pieces).toEqual(Array.from({ length: 32 }, () => ({ bytes: 256 * 1024 })))
})

it('a photo counts as bytes in flight, while it is sent and while it is read', async () => {
  const megabyte = 1024 ** 2
  const bodyLimits = { PLANT_BODY_LIMIT: `${megabyte}`, CHAT_BODY_LIMIT: `${megabyte}`, CARD_BODY_LIMIT: `${megabyte}` }
  // An account may hold half of the bytes.
  const narrow = await startTestService({ ...bodyLimits, MAX_IN_FLIGHT_BYTES: `${2 * megabyte}` })
  try {
    await narrow.request('/plants', { json: { id: 7, name: 'Fern' } })
    const put = (bytes: number) =>
      narrow.request('/plants/7/photo', { method: 'PUT', body: new Uint8Array(jpegOf(bytes)) })
    await expectError(await put(megabyte + 1), 'plants', 503)
    for (let round = 0; round < 3; round++) {
      expect((await put(megabyte - round)).status).toBe(200)
      const photo = await narrow.request('/plants/7/photo')
      expect([photo.status, (await photo.arrayBuffer()).byteLength]).toEqual([200, megabyte - round])
    }
  } finally {
    await narrow.close()
  }
})

it('over the limit photo_bytes is a 429, until the operator raises it; a smaller photo may replace a larger one', async () => {
  const limited = await startTestService({ LIMITS: 'photo_bytes=20000' })
  try {
    const headers = { authorization: `Bearer ${await limited.makeKey('ann')}` }
    for (const id of [1, 2]) await limited.request('/plants', { json: { id, name: 'Fern' }, headers })
    const put = (id: number, bytes: number) =>
      limited.request(`/plants/${id}/photo`, { method: 'PUT', body: new Uint8Array(jpegOf(bytes)), headers })
    expect((await put(1, 15_000)).status).toBe(200)
    const refused = await put(2, 5001)
    expect(refused.headers.get('retry-after')).toBeNull()
    const { message } = await expectError(refused, 'plants', 429)
    expect(message).toContain('The limit "photo_bytes" is 20000')
    expect((await put(2, 5000)).status).toBe(200)
    expect((await put(1, 15_000)).status).toBe(200)
    await expectError(await put(1, 15_001), 'plants', 429)
    expect((await put(1, 14_000)).status).toBe(200)
    const settings = await settingsOf(limited.dataDirectory)
    await conservatory(['accounts', 'limit', 'ann', '--limit', 'photo_bytes=30000'], settings)
    await onceKnown(async () => expect((await put(1, 25_000)).status).toBe(200))
  } finally {
    await limited.close()
  }
})
