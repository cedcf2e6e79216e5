import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { conservatory } from '../support/command.ts'
import { expectError } from '../support/http.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'

const messages = [{ role: 'user', content: 'Hello' }]
let service: TestService

beforeAll(async () => {
  service = await startTestService({ CHARACTERS: 'closed', LIST_MISBEHAVING: 'on' })
})

afterAll(() => service?.close())

/** A key of an account, which may use these models. */
async function keyFor(account: string, models: readonly string[] | null): Promise<string> {
  const { access } = await storesForThisTest(service.dataDirectory)
  if (!(await access.listAccounts()).some(({ name }) => name === account)) await access.createAccount(account)
  return (await access.createKey({ account, scopes: ['chat', 'characters:write'], models })).secret
}

async function messageOf(path: string, json?: object, key = service.key, method?: string): Promise<string> {
  const headers = { authorization: `Bearer ${key}` }
  const reply = await service.request(path, { headers, ...(json && { json }), ...(method && { method }) })
  return (await expectError(reply, 'chat', 404)).message
}

describe('an unknown model', () => {
  it.each([
    ['gpt-4', undefined],
    ['understuddy', 'understudy'],
    ['UNDERSTUDY', 'understudy'],
    ['defualt', 'default'],
    ['understudy/cutt', undefined],
    ['understudy/emtpy', undefined],
    ['character/Ferm', 'character/Fern'],
    ['character/Fern@sha256:00000000', 'character/Fern'],
    ['character/captain vespr', 'character/Captain Vesper'],
    ['character/Nobody At All', undefined],
    ['charcter/Fern', 'character/Fern'],
    ['Ferm', 'character/Fern'],
    ['understudy/character/Ferm', 'understudy/character/Fern'],
    ['understdy/character/Fern', 'understudy/character/Fern'],
    ['gpt-4/character/Fern', undefined],
    ['x'.repeat(200), undefined],
  ])('%s gets the nearest model or character, and no misbehaving understudy: %s', async (model, meant) => {
    const question = meant === undefined ? '' : ` Did you mean "${meant}"?`
    const expected = `There is no model "${model}" here.${question} Your key may use: understudy.`
    for (const path of ['/chat/completions', '/v1/chat/completions', '/chat/prompt']) {
      expect(await messageOf(path, { model, messages })).toBe(expected)
    }
    expect(await messageOf('/responses', { model, input: 'Hello' })).toBe(expected)
    expect(await messageOf(`/models/${model}`)).toBe(expected)
  })

  it('is compared only with models and characters that the key may use', async () => {
    const name = 'Rowanberry'
    const [own, other] = [await keyFor('own', null), await keyFor('other', null)]
    const card = { spec: 'chara_card_v3', spec_version: '3.0', data: { name } }
    const upload = await service.request('/characters', { headers: { authorization: `Bearer ${own}` }, json: card })
    expect(upload.status).toBe(201)
    const asked = { model: 'character/Rowanbery', messages }
    expect(await messageOf('/chat/completions', asked, own)).toContain(`Did you mean "character/${name}"?`)
    expect(await messageOf('/chat/completions', asked, other)).not.toContain('Did you mean')
    const misbehaving = await keyFor('other', ['understudy/*'])
    for (const model of ['character/Fern', 'understuddy']) {
      expect(await messageOf('/chat/completions', { model, messages }, misbehaving)).toBe(
        `There is no model "${model}" here. Your key may use only models that fail on purpose.`,
      )
    }
  })
})

describe('an unknown character', () => {
  const named = { model: 'understudy', messages }
  it.each([
    ['Ferm', ' Did you mean "Fern"?'],
    ['fren', ' Did you mean "Fern"?'],
    ['Fern@sha256:00000000', ' Did you mean "Fern"?'],
    ['Nobody', ''],
  ])('%s gets the nearest character:%s', async (character, question) => {
    const expected = `There is no character of this name here.${question} Check the name.`
    expect(await messageOf('/chat/completions', { ...named, character })).toBe(expected)
    expect(await messageOf('/chat/prompt', { ...named, character })).toBe(expected)
    expect(await messageOf(`/characters/${character}`)).toBe(expected)
    expect(await messageOf(`/characters/${character}/avatar`)).toBe(expected)
    if (!character.includes('@')) {
      expect(await messageOf(`/characters/${character}`, undefined, service.key, 'DELETE')).toBe(expected)
    }
  })

  it('and an unknown model get the nearest name from commands too', async () => {
    const settings = { DATA_DIR: service.dataDirectory }
    const run = async (...words: string[]) => (await conservatory(['characters', ...words], settings)).stderr
    const character = 'There is no character of this name here. Did you mean "Fern"? Check the name.\n'
    expect(await run('export', 'Ferm')).toBe(character)
    expect(await run('test', 'Ferm', '--model', 'understudy')).toBe(character)
    expect(await run('test', 'Fern', '--model', 'understuddy')).toBe(
      'There is no model "understuddy" here. Did you mean "understudy"? Your key may use: understudy.\n',
    )
  })
})
