import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { changeOnce } from '../../src/plants/kept-replies.ts'
import { query, type Script, type Scripts } from '../../src/storage/scripts.ts'
import { engines, type TestDatabase } from '../support/engines.ts'

const day = 86_400
const key = (name: string, request = name) => ({ key: name, request })

describe.each(engines)('kept replies over $name', (engine) => {
  let database: TestDatabase
  let scripts: Scripts
  let account: number

  beforeEach(async () => {
    database = await engine.openDatabase()
    onTestFinished(() => database.close())
    scripts = database.openScripts()
    account = await database.newAccount()
  })

  /** Makes a change with an idempotency key, and counts it. */
  let changes = 0
  const change = (name: string, request?: string, now = 100, kept = `reply ${++changes}`) =>
    scripts.write(account, () =>
      changeOnce(
        account,
        key(name, request),
        // biome-ignore lint/correctness/useYield: this change has no statements.
        function* (): Script<string> {
          return kept
        },
        now,
      ),
    )

  const keys = async () => {
    const rows = await scripts.read(() =>
      query<{ key: string }>('SELECT key FROM kept_replies WHERE account = $1 ORDER BY created, key', account),
    )
    return rows.map((row) => row.key)
  }

  it('answer a repeated request for a day, and refuse the key for another request', async () => {
    const first = await change('a', 'one', 100)
    expect(first).toMatchObject({ at: 100, isReplay: false })
    expect(await change('a', 'one', 100 + day)).toEqual({ ...first, isReplay: true })
    await expect(change('a', 'two', 100 + day)).rejects.toMatchObject({ status: 422, code: 'key_reused' })
    const later = await change('a', 'two', 101 + day)
    expect(later).toMatchObject({ at: 101 + day, isReplay: false })
    expect(await change('a', 'two', 101 + day)).toEqual({ ...later, isReplay: true })
  })

  it('are of one account, and of one change if several requests come together', async () => {
    const answers = await Promise.all([change('a'), change('a'), change('b')])
    expect(answers.map(({ isReplay }) => isReplay)).toEqual([false, true, false])
    expect(answers[0]?.kept).toBe(answers[1]?.kept)
    account = await database.newAccount()
    expect(await change('a')).toMatchObject({ isReplay: false })
  })

  it('are not kept for a refused change', async () => {
    const refused = scripts.write(account, () =>
      changeOnce(
        account,
        key('a'),
        // biome-ignore lint/correctness/useYield: this change has no statements.
        function* (): Script<string> {
          throw new ApiError(409, 'taken', 'It is taken.')
        },
      ),
    )
    await expect(refused).rejects.toMatchObject({ status: 409 })
    expect(await keys()).toEqual([])
  })

  it('are the newest 10,000 of an account, and the newest 100 of those over 1,024 characters', async () => {
    await scripts.write(account, () =>
      query(
        `INSERT INTO kept_replies (account, key, request, reply, created)
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000)
        SELECT $1, CAST(n AS TEXT), '', CASE WHEN n <= 100 THEN $2 ELSE '' END, n FROM numbers`,
        ...[account, 'x'.repeat(1025)],
      ),
    )
    await change('short', 'short', 20_000, 'x'.repeat(1024))
    expect((await keys()).slice(0, 2)).toEqual(['2', '3'])
    await change('long', 'long', 20_001, 'x'.repeat(1025))
    await change('longer', 'longer', 20_002, 'x'.repeat(65_536))
    expect((await keys()).slice(0, 2)).toEqual(['3', '4'])
    await change('newest', 'newest', 20_003)
    const kept = await keys()
    expect([kept.length, kept[0], ...kept.slice(-4)]).toEqual([10_000, '5', 'short', 'long', 'longer', 'newest'])
  })

  it('are removed after a day, in portions', async () => {
    for (const [index, name] of ['a', 'b', 'c', 'd'].entries()) await change(name, name, index)
    const plants = database.openPlants()
    expect(await plants.removeExpiredKeys(3, 2)).toBe(2)
    expect(await keys()).toEqual(['c', 'd'])
    expect(await plants.removeExpiredKeys(3, 2)).toBe(1)
    expect(await plants.removeExpiredKeys(3, 2)).toBe(0)
    expect(await keys()).toEqual(['d'])
  })
})
