import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { checkModels } from '../../src/models/model-check.ts'
import { TestClock } from '../support/clock.ts'
import { conservatory } from '../support/command.ts'
import { temporaryFolder } from '../support/service.ts'
import { completion, json, upstreamForThisTest } from '../support/upstream.ts'

const canary = 'CANARY-0123'

const $ = (name: string) => `$\{${name}}`

describe('conservatory models check', () => {
  test('stops waiting for a model that does not answer', async () => {
    const upstream = await upstreamForThisTest(() => {})
    const folder = temporaryFolder()
    onTestFinished(folder.remove)
    const models = { silent: { adapter: 'openai', baseUrl: upstream.url }, understudy: { adapter: 'understudy' } }
    writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
    const clock = new TestClock()
    const checks = checkModels(readConfig({ DATA_DIR: folder.path }), clock)
    await upstream.called(1)
    clock.advance(30_000)
    expect((await checks).map(({ model, state, message }) => [model, state, message])).toEqual([
      ['silent', 'upstream_timeout', 'The model has not answered for 30 s.'],
      ['understudy', 'ok', null],
    ])
  })

  test('asks each model except prefixes for one word, and reports which answered', async () => {
    const upstream = await upstreamForThisTest((response, call) => {
      const status = call.body['model'] === 'broken' ? 401 : 200
      json(status === 200 ? completion('Word.') : { error: { message: `Wrong key ${canary}` } }, status)(response, call)
    })
    const folder = temporaryFolder()
    onTestFinished(folder.remove)
    const adapter = { adapter: 'openai', baseUrl: upstream.url, apiKey: $('CANARY'), retries: 0 }
    const good = {
      understudy: { adapter: 'understudy' },
      odd: { adapter: 'understudy/stall' },
      works: {
        ...adapter,
        defaults: { max_tokens: 5 },
        params: { set: { top_k: 1 }, rename: { max_tokens: 'max_completion_tokens' } },
      },
      'any/*': adapter,
      list: { fallback: ['works'] },
    }
    const write = (models: unknown) => writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
    const run = (...args: string[]) =>
      conservatory(['models', 'check', ...args], { DATA_DIR: folder.path, CANARY: canary })
    write(good)
    const table = await run()
    expect([table.code, table.stderr]).toEqual([0, ''])
    expect(table.stdout).toMatch(
      /^MODEL +ADAPTER +STATE +MS +MESSAGE\nunderstudy +understudy +ok +\d+ +-\nodd +understudy\/stall +ok /,
    )
    const asked = { model: 'works', max_completion_tokens: 5, top_k: 1, messages: expect.any(Array) }
    expect(upstream.calls.map(({ body }) => body)).toStrictEqual([asked, asked])

    write({ ...good, broken: adapter })
    const [list, shown] = await Promise.all([run('--json'), run()])
    expect([list.code, list.stderr]).toEqual([1, 'Not every model answers.\n'])
    const rows: readonly Record<string, unknown>[] = JSON.parse(list.stdout)
    expect(rows.map(({ model, state }) => [model, state])).toEqual([
      ...Object.keys(good).map((name) => [name, name.endsWith('*') ? 'not asked' : 'ok']),
      ['broken', 'upstream_auth_error'],
    ])
    expect(rows.at(-1)).toStrictEqual({
      model: 'broken',
      adapter: 'openai',
      state: 'upstream_auth_error',
      ms: expect.any(Number),
      message: expect.stringMatching(/^The model's service refused .+\.$/),
    })
    expect(shown.code).toBe(1)
    expect(shown.stdout).toMatch(/\nbroken +openai +upstream_auth_error +\d+ +The model's service/)
    for (const { stdout, stderr } of [table, list, shown]) expect(stdout + stderr).not.toContain(canary)

    write({ ...good, wrong: { adapter: 'openai', apiKey: canary } })
    const refused = await run()
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toContain('models.json: models.wrong.baseUrl is missing.')
    expect(refused.stderr).not.toContain(canary)
  })
})
