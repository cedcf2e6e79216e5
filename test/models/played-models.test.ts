import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { defaultModels } from '../../src/models/configuration/configuration.ts'
import { readModels } from '../../src/models/configuration/models-file.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'
import {
  completion,
  json,
  pieces,
  type ScriptedUpstream,
  startUpstream,
  upstreamForThisTest,
} from '../support/upstream.ts'

/* Characters as models, for client programs that have a field for the model only. */

let upstream: ScriptedUpstream
let service: TestService
let ann: string
let folder: ReturnType<typeof temporaryFolder>

const cardOf = (name: string) => JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data: { name } })

beforeAll(async () => {
  upstream = await startUpstream(json(completion('Hello there.')))
  folder = temporaryFolder()
  mkdirSync(join(folder.path, 'characters'))
  writeFileSync(join(folder.path, 'characters', 'mallow.json'), cardOf('Mallow'))
  const behind = { adapter: 'openai', baseUrl: upstream.url, retries: 0 }
  service = await startTestService(
    { DATA_DIR: folder.path },
    {
      understudy: { adapter: 'understudy' },
      gpt: behind,
      'pre/*': behind,
      best: { fallback: ['gpt', 'understudy'] },
      'character/Taken': behind,
      tolliver: { ...behind, defaults: { character: 'Tolliver', user_name: 'Ada', temperature: 0.5 } },
    },
  )
  ann = await service.makeKey('ann', ['chat', 'characters:write'])
  await ask('/characters', undefined, cardOf('Ivy'))
})

beforeEach(() => {
  upstream.calls.length = 0
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
  folder?.remove()
})

const messages = [{ role: 'user', content: 'Hello' }]

function ask(path: string, sent?: object, body?: string, key = ann): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  if (body !== undefined) return service.request(path, { method: 'POST', headers, body })
  return service.request(path, { headers, ...(sent ? { json: { messages, ...sent } } : {}) })
}

describe('a character as a model', () => {
  it.each<readonly [model: string, usedModel: string, character: RegExp | null, upstreamId: string | null]>([
    ['character/Fern', 'understudy', /^Fern@sha256:/, null],
    ['character/fern', 'understudy', /^Fern@sha256:/, null],
    ['character/Ivy', 'understudy', /^Ivy@sha256:/, null],
    ['character/Mallow', 'understudy', /^Mallow@sha256:/, null],
    ['default/character/Fern', 'understudy', /^Fern@sha256:/, null],
    ['gpt/character/Fern', 'gpt', /^Fern@sha256:/, 'gpt'],
    ['best/character/Fern', 'gpt', /^Fern@sha256:/, 'gpt'],
    ['pre/x/character/Fern', 'pre/*', /^Fern@sha256:/, 'x'],
    ['pre/x/y/character/Fern', 'pre/*', /^Fern@sha256:/, 'x/y'],
    ['character/Taken', 'character/Taken', null, 'character/Taken'],
    ['tolliver', 'tolliver', /^Tolliver@sha256:/, 'tolliver'],
    ['tolliver/character/Fern', 'tolliver', /^Fern@sha256:/, 'tolliver'],
  ])('%s is played on %s', async (model, usedModel, character, upstreamId) => {
    const response = await ask('/chat/completions', { model })
    expect(response.status, await response.clone().text()).toBe(200)
    expect(decodeURIComponent(response.headers.get('x-model') ?? '')).toBe(usedModel)
    const played = response.headers.get('x-character')
    if (character) expect(played).toMatch(character)
    else expect(played).toBeNull()
    expect(upstream.calls.map(({ body }) => body['model'])).toEqual(upstreamId === null ? [] : [upstreamId])
    expect(upstream.calls.every(({ body }) => !('character' in body) && !('user_name' in body))).toBe(true)
  })

  it('is recorded, and shown in a receipt, as if the request named the character in its own field', async () => {
    const record = async (sent: object) => {
      const response = await ask('/chat/completions', sent)
      await response.text()
      const found = await ask(`/requests/${response.headers.get('x-request-id')}`)
      const { model, model_used, character } = JSON.parse(await found.text())
      return { model, model_used, character }
    }
    expect(await record({ model: 'gpt/character/Fern' })).toEqual(await record({ model: 'gpt', character: 'Fern' }))
    const receipt = async (sent: object) => await (await ask('/chat/prompt', sent)).text()
    expect(await receipt({ model: 'character/Fern' })).toBe(await receipt({ model: 'default', character: 'Fern' }))
  })

  it('can be pinned to a version', async () => {
    const first = await ask('/chat/completions', { model: 'character/Fern' })
    const pin = first.headers.get('x-character') ?? ''
    const again = await ask('/chat/completions', { model: `character/${pin}` })
    expect(again.headers.get('x-character')).toBe(pin)
    await expectNoModel({ model: `character/Fern@sha256:${'0'.repeat(64)}` })
  })

  it('may come with the same character in the request, but not with another one', async () => {
    expect((await ask('/chat/completions', { model: 'character/Fern', character: ' Fern ' })).status).toBe(200)
    // Names of characters ignore case.
    expect((await ask('/chat/completions', { model: 'character/Fern', character: 'fern' })).status).toBe(200)
    const refused = await ask('/chat/completions', { model: 'character/Fern', character: 'Bolt' })
    expect(await expectError(refused, 'chat', 400)).toMatchObject({ code: 'invalid_field', param: 'character' })
  })

  it.each(['character/Nobody', 'gpt/character/Nobody', 'nowhere/character/Fern', 'character/', 'gpt/character/'])(
    'that does not exist is a 404 model_not_found: %s',
    async (model) => {
      await expectNoModel({ model })
      expect((await ask(`/models/${model}`)).status).toBe(404)
      expect(upstream.calls.filter(({ path }) => path !== '/v1/models')).toEqual([])
    },
  )

  async function expectNoModel(sent: object): Promise<void> {
    const error = await expectError(await ask('/chat/completions', sent), 'chat', 404)
    expect(error).toMatchObject({ code: 'model_not_found', param: 'model' })
  }
})

describe('GET /models', () => {
  const list = async (key = ann): Promise<{ data: { id: string; owned_by: string }[]; has_more: boolean }> =>
    JSON.parse(await (await ask('/models', undefined, undefined, key)).text())

  it('lists the caller’s characters after the models', async () => {
    const { data, has_more } = await list()
    const models = ['understudy', 'gpt', 'best', 'character/Taken', 'tolliver']
    expect(data.slice(0, models.length).map(({ id }) => id)).toEqual(models)
    const owners = Object.fromEntries(data.slice(models.length).map(({ id, owned_by }) => [id, owned_by]))
    expect(owners).toMatchObject({
      'character/Fern': 'conservatory',
      'character/Mallow': 'operator',
      'character/Ivy': 'account',
    })
    expect(has_more).toBe(false)
    const others = await list(await service.makeKey('bob', ['chat']))
    expect(others.data.map(({ id }) => id)).not.toContain('character/Ivy')
  })

  it.each(['character/Fern', 'character%2FFern', 'gpt/character/Fern', 'pre/x/character/Ivy'])(
    'returns one model by its id: %s',
    async (path) => {
      const response = await ask(`/models/${path}`)
      expect(response.status).toBe(200)
      const { id, object } = JSON.parse(await response.text())
      expect({ id, object }).toEqual({ id: decodeURIComponent(path), object: 'model' })
    },
  )

  it('gives each model and each character the same time in the list and by its id', async () => {
    const sql = await sqlForThisTest(service.dataDirectory)
    await sql.run('UPDATE characters SET created = 1000000000 WHERE name = ?', 'Ivy')
    const { data } = await list()
    expect(data).toContainEqual(expect.objectContaining({ id: 'character/Ivy', created: 1_000_000_000 }))
    for (const model of data) {
      expect(JSON.parse(await (await ask(`/models/${model.id}`)).text())).toStrictEqual(model)
    }
    expect(await (await ask('/models/gpt/character/ivy')).json()).toMatchObject({ created: 1_000_000_000 })
  })

  it('lists at most 1,000 characters, and says that there are more', async () => {
    const crowd = temporaryFolder()
    mkdirSync(join(crowd.path, 'characters'))
    for (let index = 0; index < 1001; index++) {
      writeFileSync(join(crowd.path, 'characters', `c${index}.json`), cardOf(`C ${index}`))
    }
    const crowded = await serviceForThisTest({ DATA_DIR: crowd.path })
    const { data, has_more } = JSON.parse(await (await crowded.request('/models')).text())
    expect(data.filter(({ id }: { id: string }) => id.startsWith('character/'))).toHaveLength(1000)
    expect(has_more).toBe(true)
    crowd.remove()
  })

  it('lists misbehaving understudies only with LIST_MISBEHAVING=on; they always answer', async () => {
    const ids = async (at: TestService) =>
      JSON.parse(await (await at.request('/models')).text()).data.map(({ id }: { id: string }) => id)
    const usual = await serviceForThisTest()
    expect(await ids(usual)).not.toContain('understudy/empty')
    const sent = { model: 'understudy/empty', messages }
    expect((await usual.request('/chat/completions', { json: sent })).status).toBe(200)
    for (const name of ['understudy/empty', 'default']) {
      const described = await (await usual.request(`/models/${name}`)).json()
      expect(described).toMatchObject({ owned_by: 'conservatory' })
    }
    expect(await ids(await serviceForThisTest({ LIST_MISBEHAVING: 'on' }))).toContain('understudy/empty')
  })
})

describe('the models of an upstream behind a prefix', () => {
  const idsOf = async (at: TestService): Promise<readonly string[]> =>
    JSON.parse(await (await at.request('/models')).text()).data.map(({ id }: { id: string }) => id)

  it('are read once, and listed from the first request on', async () => {
    const asked: string[] = []
    const behind = await upstreamForThisTest((response, call) => {
      asked.push(`${call.path} ${call.headers.authorization}`)
      json({ object: 'list', data: [{ id: 'a' }, { id: 'org/b' }, { id: 5 }, null, { id: 'x'.repeat(401) }] })(
        response,
        call,
      )
    })
    const settings = { adapter: 'openai', baseUrl: behind.url, apiKey: 'a-secret' }
    const at = await serviceForThisTest(
      {},
      { understudy: { adapter: 'understudy' }, 'far/*': settings, 'far/a': settings },
    )
    for (const ids of [await idsOf(at), await idsOf(at)])
      expect(ids.filter((id) => id.startsWith('far/'))).toEqual(['far/a', 'far/org/b'])
    expect(asked).toEqual(['/v1/models Bearer a-secret'])
  })

  it('are listed once each, and never with an id that means a character here', async () => {
    const behind = await upstreamForThisTest(
      json({ data: [{ id: 'character/Fern' }, { id: 'a/character/Fern' }, { id: 'b' }] }),
    )
    const settings = { adapter: 'openai', baseUrl: behind.url }
    const models = {
      understudy: { adapter: 'understudy' },
      'character/Bolt': settings,
      'far/*': settings,
      '*': settings,
    }
    const at = await serviceForThisTest({}, models)
    const ids = await idsOf(at)
    expect(ids).toEqual(expect.arrayContaining(['b', 'far/b']))
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([])
    expect(ids.filter((id) => /character\/(?:Fern|Bolt)$/.test(id)).toSorted()).toEqual([
      'character/Bolt',
      'character/Fern',
    ])
  })

  it.each([
    ['an error', json({ error: { message: 'No.' } }, 500)],
    ['HTML', pieces(['<html>'])],
    ['another shape', json({ models: [] })],
    ['nothing', () => {}],
  ])('are not listed if the upstream sends %s', async (_what, script) => {
    const behind = await upstreamForThisTest(script)
    const at = await serviceForThisTest({ OPENAI_BASE_URL: behind.url })
    const before = await idsOf(at)
    await behind.called(1)
    expect(await idsOf(at)).toEqual(before)
  })
})

describe('the default model', () => {
  it('is the one that DEFAULT_MODEL names', async () => {
    const at = await serviceForThisTest({ OPENAI_BASE_URL: upstream.url, DEFAULT_MODEL: 'gpt-x' })
    for (const model of ['default', 'character/Fern']) {
      const response = await at.request('/chat/completions', { json: { model, messages } })
      expect(response.headers.get('x-model')).toBe('gpt-x')
    }
    expect(upstream.calls.map(({ body }) => body['model'])).toEqual(['gpt-x', 'gpt-x'])
  })

  it('must be a model: another DEFAULT_MODEL stops the start', () => {
    expect(() => defaultModels(undefined, 'gpt-x')).toThrow('DEFAULT_MODEL is "gpt-x"')
    expect(() => defaultModels({ baseUrl: 'http://127.0.0.1/v1', apiKey: undefined }, '*')).toThrow(
      'DEFAULT_MODEL is "*"',
    )
    for (const id of ['character/Fern', 'gpt-x/character/Fern']) {
      const start = () => defaultModels({ baseUrl: 'http://127.0.0.1/v1', apiKey: undefined }, id)
      expect(start).toThrow(`DEFAULT_MODEL is ${JSON.stringify(id)}, which is a character and not a model.`)
    }
    expect(defaultModels(undefined, 'understudy/slow').default).toBe('understudy/slow')
    expect(readConfig({ DEFAULT_MODEL: 'gpt-x' }).defaultModel).toBe('gpt-x')
  })

  it('does not exist if all names are prefixes and no default is named: no upstream gets the word default as a model id', async () => {
    const settings = { adapter: 'openai', baseUrl: `${upstream.url}/v1` }
    const at = await serviceForThisTest({}, { '*': settings })
    for (const model of ['default', 'character/Fern']) {
      const response = await at.request('/chat/completions', { json: { model, messages } })
      expect((await expectError(response, 'chat', 404)).code).toBe('model_not_found')
    }
    expect(upstream.calls).toEqual([])
    const response = await at.request('/chat/completions', { json: { model: 'gpt-x', messages } })
    expect(response.status).toBe(200)
  })

  it('may be an id behind a prefix of models.json, but not a character', () => {
    const settings = { adapter: 'openai', baseUrl: 'http://127.0.0.1/v1' }
    const read = (name: string, standard: string) =>
      readModels(JSON.stringify({ default: standard, models: { [name]: settings } }), {}).default
    expect(read('*', 'gpt-x')).toBe('gpt-x')
    expect(read('local/*', 'local/llama')).toBe('local/llama')
    for (const standard of ['character/Fern', 'gpt-x/character/Fern', '*']) {
      expect(() => read('*', standard)).toThrow(/default is .+; give the name of one of the models/)
    }
    expect(() => read('local/*', 'local/')).toThrow(/default is "local/)
  })

  it('cannot be set by DEFAULT_MODEL beside a models.json: the start fails', async () => {
    const models = { understudy: { adapter: 'understudy' } }
    await expect(startTestService({ DEFAULT_MODEL: 'understudy' }, models)).rejects.toThrow('beside a models.json')
  })
})

it.each([
  ['character', 5, 'give a text of at most 200 characters'],
  ['greeting', -2, 'give a whole number from -1 on'],
])('an invalid default for a field of this service is a fault of models.json: %s', (name, value, advice) => {
  const text = JSON.stringify({ models: { a: { adapter: 'understudy', defaults: { [name]: value } } } })
  expect(() => readModels(text, {})).toThrow(`models.a.defaults.${name} is not valid; ${advice}`)
})
