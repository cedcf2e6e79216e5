import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ModelList } from '../../src/access/model-lists.ts'
import { conservatory } from '../support/command.ts'
import { expectError } from '../support/http.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { onceKnown, storesForThisTest } from '../support/test-database.ts'

const models = {
  understudy: { adapter: 'understudy' },
  'understudy/500': { adapter: 'understudy/500' },
  'understudy/empty': { adapter: 'understudy/empty' },
  best: { fallback: ['understudy/500', 'understudy'] },
  // No process listens at this address, so a request that is admitted fails with another status than 404.
  'local/*': { adapter: 'openai', baseUrl: 'http://127.0.0.1:9/v1', retries: 0 },
}
let service: TestService
let accounts = 0

beforeAll(async () => {
  service = await startTestService({ LIST_MISBEHAVING: 'on' }, models)
})

afterAll(() => service?.close())

interface Caller {
  readonly account: string
  readonly prefix: string
  ask(path: string, json?: unknown): Promise<Response>
  chat(model: string, path?: string): Promise<Response>
}

/** Makes a key with a list of models, in an account with another list; null for all models. */
async function callerWith(ofKey: ModelList | null, ofAccount: ModelList | null = null): Promise<Caller> {
  const { access } = await storesForThisTest(service.dataDirectory)
  const account = `account ${++accounts}`
  await access.createAccount(account, {}, ofAccount)
  const { key, secret } = await access.createKey({ account, scopes: ['chat'], models: ofKey })
  const ask = (path: string, json?: unknown) =>
    service.request(path, { headers: { authorization: `Bearer ${secret}` }, ...(json === undefined ? {} : { json }) })
  const messages = [{ role: 'user', content: 'Hello' }]
  return {
    account,
    prefix: key.prefix,
    ask,
    chat: (model, path = '/chat/completions') => ask(path, { model, messages }),
  }
}

async function listed({ ask }: Caller): Promise<readonly string[]> {
  const body: { data: { id: string }[] } = JSON.parse(await (await ask('/models')).text())
  return body.data.map(({ id }) => id).filter((id) => !id.startsWith('character/'))
}

async function listsCharacters({ ask }: Caller): Promise<boolean> {
  return (await (await ask('/models')).text()).includes('"character/Fern"')
}

/** The ids that a key may use: a request for such a model does not get a 404, even if the model fails. */
async function open({ chat }: Caller, ids: readonly string[]): Promise<readonly string[]> {
  const answers = await Promise.all(ids.map(async (id) => ({ id, status: (await chat(id)).status })))
  return answers.filter(({ status }) => status !== 404).map(({ id }) => id)
}

const asked = [...Object.keys(models), 'default', 'local/llama', 'local/llama/small', 'local/', 'Best', 'nobody']

describe('a key', () => {
  it.each<[ModelList | null, ModelList | null, readonly string[], readonly string[]]>([
    [
      null,
      null,
      ['understudy', 'understudy/500', 'understudy/empty', 'best'],
      [...Object.keys(models), 'default', 'local/llama', 'local/llama/small'],
    ],
    // The models behind a fallback are the operator's choice.
    [['best'], null, ['best'], ['best']],
    [null, ['best'], ['best'], ['best']],
    [['understudy/*'], null, ['understudy/500', 'understudy/empty'], ['understudy/500', 'understudy/empty']],
    [['local/llama', 'best'], null, ['best'], ['best', 'local/llama']],
    [['local/llama/*', 'best'], ['local/*'], [], ['local/llama/small']],
    // The default and the model that it stands for count as one.
    [['default'], null, ['understudy'], ['understudy', 'default']],
    [['understudy'], ['default', 'best'], ['understudy'], ['understudy', 'default']],
    [['nobody', 'Best'], null, [], []],
  ])('with %j in an account with %j sees %j and may use %j', async (ofKey, ofAccount, seen, usable) => {
    const caller = await callerWith(ofKey, ofAccount)
    expect(await listed(caller)).toStrictEqual(seen)
    expect(await open(caller, asked)).toStrictEqual(usable)
    // Characters are played on the default model.
    expect(await listsCharacters(caller)).toBe(usable.includes('default'))
    expect(await open(caller, ['character/Fern', 'best/character/Fern'])).toStrictEqual([
      ...(usable.includes('default') ? ['character/Fern'] : []),
      ...(usable.includes('best') ? ['best/character/Fern'] : []),
    ])
  })
})

describe('a model that a key may not use', () => {
  it.each(['/models/', '/chat/completions', '/v1/chat/completions', '/chat/prompt'])(
    'is the same 404 as an unknown model: %s',
    async (path) => {
      const caller = await callerWith(['local/llama/*', 'local/phi', 'best'], ['local/*', 'best', 'understudy/*'])
      const answerFor = async (id: string) => {
        const answer = path === '/models/' ? await caller.ask(`${path}${id}`) : await caller.chat(id, path)
        const { 'x-request-id': requestId, date, ...headers } = Object.fromEntries(answer.headers)
        expect([requestId, date]).not.toContain(undefined)
        const { message, code, param } = await expectError(answer, 'chat', 404)
        return { headers, code, param, message: message.replace(JSON.stringify(id), 'ID') }
      }
      const missing = await answerFor('nobodyhere')
      expect(missing).toMatchObject({
        code: 'model_not_found',
        param: 'model',
        message: 'There is no model ID here. Your key may use: best, local/llama/*, local/phi.',
      })
      // Both ids have the same length, so that the headers can be compared.
      expect(await answerFor('understudy')).toStrictEqual(missing)
    },
  )

  it('is a 404 that says so if the key may use no model at all', async () => {
    const caller = await callerWith(['best'], ['understudy'])
    const { message } = await expectError(await caller.chat('best'), 'chat', 404)
    expect(message).toBe('There is no model "best" here. Your key may use no model.')
  })

  it('is used through a fallback that the key may use', async () => {
    const answer = await (await callerWith(['best'])).chat('best')
    expect([answer.status, answer.headers.get('x-model')]).toStrictEqual([200, 'understudy'])
  })
})

it('a changed or removed list takes effect with the next requests', async () => {
  const caller = await callerWith(['best'])
  const run = (...args: readonly string[]) => conservatory(args, { DATA_DIR: service.dataDirectory })
  expect(await listed(caller)).toStrictEqual(['best'])
  const changed = await run('keys', 'models', caller.prefix, 'best, understudy')
  expect(changed).toStrictEqual({
    code: 0,
    stdout: '',
    stderr: `The models of the key ${caller.prefix} are now: best,understudy.\n`,
  })
  await onceKnown(async () => expect(await listed(caller)).toStrictEqual(['understudy', 'best']))
  expect((await run('accounts', 'models', caller.account, 'understudy/*,understudy')).code).toBe(0)
  await onceKnown(async () => expect(await listed(caller)).toStrictEqual(['understudy']))
  expect((await run('accounts', 'models', caller.account, '*')).stderr).toBe(
    `The models of the account "${caller.account}" are now: all.\n`,
  )
  expect((await run('keys', 'models', caller.prefix, '*')).code).toBe(0)
  await onceKnown(async () => expect(await listed(caller)).toHaveLength(4))
})
