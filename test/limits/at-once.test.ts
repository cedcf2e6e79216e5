import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { compileCache } from '../support/command.ts'
import {
  allFree,
  crowd,
  killWhileSpending,
  placesAtOnce,
  properEndings,
  startWatchfulUpstream,
  tokensEach,
  watchedModels,
} from '../support/limit-rounds.ts'
import { ledgerRows, spentBy } from '../support/limits.ts'
import { spawnService } from '../support/process.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

/** How often the test begins its hundred chats; LIMIT_ROUNDS sets the number. */
const rounds = Number(process.env['LIMIT_ROUNDS'] ?? 2)
const patience = 30_000 + rounds * 3000
const limits = `chat_at_once=${placesAtOnce}`
const preset = 'a-key-for-tests-of-limits'

async function watchfulUpstream() {
  const upstream = await startWatchfulUpstream()
  onTestFinished(() => upstream.close())
  return upstream
}

it.for([limits, `${limits},tokens_per_day=1000000000`])(
  'of a hundred parallel chats at most ten are in flight, and none is counted after its end (%s)',
  { timeout: patience },
  async (written) => {
    const upstream = await watchfulUpstream()
    const models = { understudy: { adapter: 'understudy' }, ...watchedModels(upstream.url) }
    const service = await serviceForThisTest({ LIMITS: written }, models)
    const { endings, areFree } = await crowd([service.url], service.key, rounds, upstream)
    expect(areFree).toBe(true)
    expect(upstream.tooMany()).toBe(0)
    expect(endings).toStrictEqual(properEndings)
  },
)

it('after kill -9 no chat counts as in flight, and completed replies are counted as spent', {
  timeout: patience,
}, async () => {
  const upstream = await watchfulUpstream()
  const { path: folder, remove } = temporaryFolder()
  onTestFinished(remove)
  const models = { understudy: { adapter: 'understudy' }, ...watchedModels(upstream.url) }
  writeFileSync(join(folder, 'models.json'), JSON.stringify({ models }))
  const start = async () => {
    const service = await spawnService(process.execPath, ['src/main.ts'], {
      environment: {
        ...compileCache,
        DATA_DIR: folder,
        BOOTSTRAP_KEY: preset,
        LOG_LEVEL: 'silent',
        LIMITS: `${limits},tokens_per_day=1000000000`,
      },
    })
    const kill = async () => {
      service.process.kill('SIGKILL')
      await service.exited
    }
    return { url: service.url, kill }
  }
  const { completed, refused } = await killWhileSpending({ rounds, key: preset, start })
  expect(completed.size).toBeGreaterThan(0)
  expect(refused).toBe(0)

  const sql = await sqlForThisTest(folder)
  const running = (await ledgerRows(sql)).filter(({ state }) => state === 'running')
  const last = await start()
  const rows = await ledgerRows(sql)
  const [spent = 0] = await spentBy(sql, 'account:')
  expect(await allFree(last.url, preset)).toBe(true)
  await last.kill()

  expect(rows.some(({ state }) => state === 'running')).toBe(false)
  const states = new Map(rows.map(({ id, state }) => [id, state]))
  expect([...completed].filter((id) => states.get(id) !== 'stop')).toStrictEqual([])
  const open = rows.filter(({ state }) => state === 'interrupted')
  expect(open.length).toBeGreaterThanOrEqual(running.length)
  expect(open.length).toBeLessThanOrEqual(rounds * placesAtOnce)
  const settled = rows.filter(({ state }) => state !== 'interrupted')
  expect(settled.filter(({ state }) => state === 'stop').length - completed.size).toBeLessThanOrEqual(
    rounds * placesAtOnce,
  )
  const used = settled.reduce((sum, row) => sum + row.prompt_tokens + row.completion_tokens, 0)
  const reserved = open.reduce((sum, row) => sum + row.reserved_tokens, 0)
  expect(spent).toBe(used + reserved)
  expect(spent).toBeGreaterThanOrEqual(completed.size * tokensEach)
})
