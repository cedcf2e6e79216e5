import { describe, expect, it, onTestFinished } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { joined, queryEach, rowOf, rowsOf, type Script, sql } from '../../src/storage/scripts.ts'
import { engines, sqlite } from '../support/engines.ts'

describe('a statement', () => {
  it('has the values and statements of its template in their places', () => {
    const condition = sql`a = ${1} AND b = ${'two'}`
    expect(sql`SELECT ${3} WHERE ${condition} OR c IS ${null}`).toEqual({
      texts: ['SELECT ', ' WHERE a = ', ' AND b = ', ' OR c IS ', ''],
      values: [3, 1, 'two', null],
    })
  })

  it('is joined with others, values included', () => {
    expect(joined([sql`(${1}, ${'a'})`, sql`(${2}, ${'b'})`], ', ')).toEqual({
      texts: ['(', ', ', '), (', ', ', ')'],
      values: [1, 'a', 2, 'b'],
    })
    expect(joined([], ', ')).toEqual({ texts: [''], values: [] })
  })
})

it('scripts over SQLite read one portion in a turn of the event loop', async () => {
  const database = await sqlite.openDatabase()
  onTestFinished(() => database.close())
  const scripts = database.openScripts()
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const read = function* (): Script<number> {
    yield* rowOf(sql`SELECT 1 AS one`)
    return turns
  }
  const readIn = await Promise.all([1, 2, 3, 4].map(() => scripts.readPortion(read)))
  isOver = true
  expect(new Set(readIn).size).toBe(4)
})

describe.each(engines)('scripts over $name', (engine) => {
  async function scene() {
    const database = await engine.openDatabase()
    onTestFinished(() => database.close())
    await database.run('CREATE TABLE notes (account BIGINT NOT NULL, note TEXT, size BIGINT, data BYTEA)')
    return { scripts: database.openScripts(), account: await database.newAccount() }
  }

  function* add(account: number, note: string | null): Script<void> {
    yield* rowsOf(
      sql`INSERT INTO notes (account, note, size, data) VALUES (${account}, ${note}, ${1}, ${Buffer.from('ab')})`,
    )
  }

  function* notes(account: number): Script<readonly (string | null)[]> {
    const rows = yield* rowsOf<{ note: string | null }>(
      sql`SELECT note FROM notes WHERE account = ${account} ORDER BY note`,
    )
    return rows.map(({ note }) => note)
  }

  it('write values and read them again', async () => {
    const { scripts, account } = await scene()
    await scripts.write(account, () => add(account, 'Water'))
    const read = () => rowOf(sql`SELECT account, note, size, data FROM notes WHERE size = ${1} AND note = ${'Water'}`)
    expect(await scripts.read(read)).toEqual({ account, note: 'Water', size: 1, data: Buffer.from('ab') })
  })

  it('write many rows in a long transaction, all or none, and give them in their order', async () => {
    const { scripts, account } = await scene()
    const names = Array.from({ length: 120 }, (_none, index) => `note ${String(index).padStart(3, '0')}`)
    const addAll = function* (): Script<readonly string[]> {
      const text = 'INSERT INTO notes (account, note) VALUES ($1, $2) RETURNING note'
      const rows = yield* queryEach<{ note: string }>(
        text,
        names.map((name) => [account, name]),
      )
      return rows.map(({ note }) => note)
    }
    expect(await scripts.writeLong(account, addAll)).toEqual(names)
    const failing = function* (): Script<never> {
      yield* addAll()
      throw new Error('fault')
    }
    await expect(scripts.writeLong(account, failing)).rejects.toThrow()
    expect(await scripts.read(() => notes(account))).toEqual(names)
  })

  it('read the portions of all callers, also after one that fails', async () => {
    const { scripts, account } = await scene()
    await scripts.write(account, () => add(account, 'Water'))
    const failing = scripts.readPortion(() => rowsOf(sql`SELECT nothing`))
    const others = [1, 2].map(() => scripts.readPortion(() => notes(account)))
    await expect(failing).rejects.toThrow()
    expect(await Promise.all(others)).toEqual([['Water'], ['Water']])
  })

  it('write rows aside for any account, also of one that is gone', async () => {
    const { scripts, account } = await scene()
    await scripts.writeAside(() => add(account + 1, 'left'))
    expect(await scripts.read(() => notes(account + 1))).toEqual(['left'])
  })

  it('share a transaction with others, and a refusal is for its own caller', async () => {
    const { scripts, account } = await scene()
    const refuse = function* (): Script<void> {
      yield* notes(account)
      throw new ApiError(409, 'taken', 'It is taken.')
    }
    const results = await Promise.allSettled([
      scripts.write(account, () => add(account, 'one')),
      scripts.write(account, refuse),
      scripts.write(account, () => add(account, 'two')),
    ])
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await scripts.read(() => notes(account))).toEqual(['one', 'two'])
  })

  it('see what earlier scripts of their transaction have written', async () => {
    const { scripts, account } = await scene()
    const count = function* (): Script<number> {
      const before = yield* notes(account)
      yield* add(account, `note ${before.length}`)
      return before.length
    }
    const counts = await Promise.all(Array.from({ length: 20 }, () => scripts.write(account, count)))
    expect(counts).toEqual(Array.from({ length: 20 }, (_, index) => index))
  })
})

it.each(engines.filter(({ hasReplicas }) => hasReplicas))(
  'a script for an account that is gone is refused over $name, and others are not',
  async (engine) => {
    const database = await engine.openDatabase()
    onTestFinished(() => database.close())
    const [scripts, account] = [database.openScripts(), await database.newAccount()]
    const nothing = function* (): Script<string> {
      yield* rowsOf(sql`SELECT 1 AS one`)
      return 'done'
    }
    const results = await Promise.allSettled([scripts.write(account + 1, nothing), scripts.write(account, nothing)])
    expect(results).toMatchObject([
      { status: 'rejected', reason: { status: 403, code: 'account_deleted' } },
      { status: 'fulfilled', value: 'done' },
    ])
  },
)
