import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

const card = JSON.stringify({
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: {
    name: 'Moss',
    description: 'D',
    first_mes: 'Hi',
    extensions: { 'a/b': { x: [1, null] } },
    unknown: { y: 'z' },
  },
})
const types = { json: 'application/json; charset=utf-8', png: 'image/png', charx: 'application/vnd.charx' }

async function bytesOf(
  path: string,
): Promise<{ readonly type: string | null; readonly bytes: Uint8Array<ArrayBuffer> }> {
  const response = await service.request(path)
  expect([path, response.status]).toEqual([path, 200])
  return { type: response.headers.get('content-type'), bytes: new Uint8Array(await response.arrayBuffer()) }
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

describe('a card', () => {
  test('is exported in every format of V3 and imported again; only its picture has no place in JSON', async () => {
    const put = (name: string, body: string | Uint8Array<ArrayBuffer>) =>
      service.request(`/characters/${name}`, {
        method: 'PUT',
        body,
        headers: { 'content-type': 'application/octet-stream' },
      })
    expect((await put('Moss', card)).status).toBe(201)
    for (const format of ['json', 'png', 'charx'] as const) {
      const { type, bytes } = await bytesOf(`/characters/Moss?format=${format}`)
      expect(type).toBe(types[format])
      const again = await put(`As-${format}`, bytes)
      expect(again.status).toBe(201)
      expect(await again.json()).toMatchObject({ name: `As-${format}`, digest: digestOf(bytes), greetings: 1 })
      expect((await bytesOf(`/characters/As-${format}?format=${format}`)).bytes).toEqual(bytes)
      const told = await service.request(`/characters/As-${format}?format=json`)
      const losses = format === 'png' ? 'The picture of the card is not in this format.' : null
      expect([format, told.headers.get('x-export-losses')]).toEqual([format, losses])
      const json = await bytesOf(`/characters/As-${format}?format=json`)
      expect(JSON.parse(Buffer.from(json.bytes).toString())).toMatchObject({
        data: { extensions: { 'a/b': { x: [1, null] } }, unknown: { y: 'z' } },
      })
    }
  })

  test('is read from the folder in every format', async () => {
    const folder = join(service.dataDirectory, 'characters')
    mkdirSync(folder)
    for (const format of ['json', 'png', 'charx']) {
      const named = card.replace('Moss', `From ${format}`)
      await service.request(`/characters/${format}`, { method: 'PUT', body: named })
      writeFileSync(join(folder, `x.${format}`), (await bytesOf(`/characters/${format}?format=${format}`)).bytes)
    }
    const listed = async () => (await service.request('/characters')).text()
    await eventually(async () => {
      const text = await listed()
      for (const format of ['json', 'png', 'charx']) expect(text).toContain(`"From ${format}","origin":"folder"`)
    })
  })

  test.each([
    ['card_not_found_in_image', 'png', (bytes: Buffer) => Buffer.concat([bytes.subarray(0, 33), bytes.subarray(-12)])],
    ['card_damaged', 'png', (bytes: Buffer) => bytes.subarray(0, 60)],
    ['card_damaged', 'charx', (bytes: Buffer) => bytes.subarray(0, bytes.length - 30)],
    ['card_unsupported', 'png', () => Buffer.from('RIFF\0\0\0\0WEBPVP8 ')],
  ] as const)('that cannot be read gets a 400 %s (%s)', async (code, format, spoil) => {
    const { bytes } = await bytesOf(`/characters/Fern?format=${format}`)
    const body = new Uint8Array(spoil(Buffer.from(bytes)))
    const headers = { 'content-type': types[format] }
    const refusal = await expectError(
      await service.request('/characters', { method: 'POST', body, headers }),
      'chat',
      400,
    )
    expect(refusal.code).toBe(code)
  })
})
