import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conservatory } from '../support/command.ts'
import { startTestService, type TestService } from '../support/service.ts'

const models = {
  default: { fallback: ['plain'] },
  plain: { adapter: 'understudy' },
  other: { adapter: 'understudy' },
  third: { adapter: 'understudy' },
}
const messages = [{ role: 'user', content: 'Hello' }]
const cards = { Asks: 'other', Unknown: 'nowhere', Odd: 5, None: undefined }

let on: TestService
let off: TestService

beforeAll(async () => {
  on = await startTestService({ CHARACTER_MODELS: 'on' }, models)
  off = await startTestService({}, models)
  for (const service of [on, off]) {
    for (const [name, model] of Object.entries(cards)) {
      const data = { name, first_mes: 'Hi', extensions: { conservatory: { model } } }
      const body = JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data })
      const told = await service.request(`/characters/${name}`, { method: 'PUT', body })
      expect(await told.json()).toMatchObject({ model: name === 'Asks' || name === 'Unknown' ? model : null })
    }
  }
})

afterAll(async () => {
  await on?.close()
  await off?.close()
})

/**
 * Requests a whole reply, a stream and a receipt, and checks that all three have the same result.
 * @returns the model in the header `x-model`, or the status of the refusal
 */
async function answering(service: TestService, body: object, key = service.key): Promise<string> {
  const headers = { authorization: `Bearer ${key}` }
  const told = []
  for (const [path, stream] of [
    ['/chat/completions', false],
    ['/chat/completions', true],
    ['/chat/prompt', false],
  ] as const) {
    const response = await service.request(path, { json: { messages, stream, ...body }, headers })
    await response.text()
    told.push(response.status === 200 ? (response.headers.get('x-model') ?? '') : String(response.status))
  }
  expect(new Set(told).size).toBe(1)
  return told[0] ?? ''
}

describe('the model that a card asks for', () => {
  test.each<[object, string]>([
    [{ model: 'character/Asks' }, 'other'],
    [{ model: 'default', character: 'asks' }, 'other'],
    [{ model: 'plain', character: 'Asks' }, 'plain'],
    [{ model: 'third', character: 'Asks' }, 'third'],
    [{ model: 'third/character/Asks' }, 'third'],
    [{ model: 'character/Unknown' }, 'plain'],
    [{ model: 'character/Odd' }, 'plain'],
    [{ model: 'character/None' }, 'plain'],
    [{ model: 'default' }, 'plain'],
  ])('%j: %s answers with CHARACTER_MODELS=on; otherwise the card has no effect', async (body, model) => {
    expect(await answering(on, body)).toBe(model)
    const named = await answering(off, body)
    expect(named).toBe(model === 'other' ? 'plain' : model)
  })

  test('is never a model that the key may not use', async () => {
    const run = (...args: readonly string[]) => conservatory(args, { DATA_DIR: on.dataDirectory })
    expect(await run('accounts', 'create', 'narrow')).toMatchObject({ code: 0 })
    const keyFor = async (allowed: string) => {
      const made = await run(
        'keys',
        'create',
        '--account',
        'narrow',
        '--scopes',
        'chat,characters:write',
        '--models',
        allowed,
      )
      expect(made.code).toBe(0)
      return made.stdout.trim()
    }
    const [narrow, wide, without] = [await keyFor('default'), await keyFor('default,other'), await keyFor('other')]
    const data = { name: 'Mine', extensions: { conservatory: { model: 'other' } } }
    const body = JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data })
    await on.request('/characters', { method: 'POST', body, headers: { authorization: narrow } })
    expect(await answering(on, { model: 'character/Mine' }, narrow)).toBe('plain')
    expect(await answering(on, { model: 'character/Mine' }, wide)).toBe('other')
    expect(await answering(on, { model: 'character/Mine' }, without)).toBe('404')
  })
})
