import { beforeAll, describe, expect, it } from 'vitest'
import { ask, clockForThisFile, day, keeper, now } from '../support/care.ts'
import { conservatory } from '../support/command.ts'
import { type Caller, callers, newCaller, plantServiceForThisFile, service, sql } from '../support/plant-callers.ts'

clockForThisFile()
plantServiceForThisFile()

let owner: Caller
let name: string
beforeAll(async () => {
  owner = await keeper()
  name = `account ${callers}`
  await ask(owner, '/plants/7/care/water', 'PUT', { every_days: 7 })
  await ask(owner, '/plants/7/care/feed', 'PUT', { every_days: 30 })
  await ask(owner, '/plants/7/events', 'POST', { kind: 'water', at: now - 9 * day, note: '=1+1\n"two"' })
  await ask(owner, '/plants/7/events', 'POST', { kind: 'moisture', at: now - day, value: -4.5, unit: '%' })
})

const run = (...words: readonly string[]) => conservatory(words, { DATA_DIR: service.dataDirectory })

describe('conservatory care due', () => {
  it('lists what is due for an account, as a table and as JSON', async () => {
    const table = await run('care', 'due', '--account', name)
    expect(table).toMatchObject({ code: 0, stderr: '' })
    expect(table.stdout.split('\n').map((line) => line.split(/\s{2,}/))).toEqual([
      ['DUE', 'OVERDUE_DAYS', 'KIND', 'PLANT', 'NAME', 'LAST'],
      ['2026-11-27', '2', 'water', '7', 'Monstera', '2026-11-20T12:00:00.000Z'],
      ['2026-11-29', '0', 'feed', '7', 'Monstera', '-'],
      [''],
    ])
    const grantee = await newCaller()
    await sql.insert('grants', [{ owner: owner.account, grantee: grantee.account, tag: '', created: 0 }])
    const json = await run('care', 'due', '--account', `account ${callers}`, '--json')
    expect(JSON.parse(json.stdout)).toMatchObject([
      { kind: 'water', plant: null, overdue_days: 2 },
      { kind: 'feed', plant: null, last: null },
    ])
  })

  it('lists more than one page, and the next days', async () => {
    const ids = Array.from({ length: 1001 }, (_, id) => id)
    const many = await keeper(ids.map((id) => ({ id, name: 'Moss' })))
    await sql.insert(
      'care_rules',
      ids.map((plant) => ({
        ...{ account: many.account, plant, kind: 'mist', every_days: 7 },
        ...{ set_on: '2026-11-30', due: '2026-11-30' },
      })),
    )
    const due = (...words: readonly string[]) =>
      run('care', 'due', '--account', `account ${callers}`, '--json', ...words)
    expect(JSON.parse((await due()).stdout)).toEqual([])
    expect(JSON.parse((await due('--within', '1d')).stdout)).toHaveLength(1001)
  })
})

describe('conservatory plants events', () => {
  it('prints the log of a plant as a table, as JSON and as CSV, as the route does', async () => {
    const events = ['plants', 'events', '--account', name, '--plant', '7']
    const listed = (await ask(owner, '/plants/7/events')).body.data
    const json = JSON.parse((await run(...events, '--json')).stdout)
    expect(json).toMatchObject(listed.map(({ plant: _plant, ...event }: { plant: number }) => event))
    expect((await run(...events, '--kind', 'water')).stdout).toMatch(
      /^ID +AT +KIND.*\n\S+ +2026-11-20T12:00:00\.000Z +water/,
    )
    const { stdout } = await run(...events, '--csv')
    expect(stdout).toBe(
      [
        'id,at,kind,note,value,unit',
        `${listed[0].id},${now - day},moisture,,-4.5,%`,
        `${listed[1].id},${now - 9 * day},water,"'=1+1\n""two""",,`,
        '',
      ].join('\r\n'),
    )
    const response = await owner.send('/plants/7/events?format=csv')
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="events-7.csv"')
    expect(await response.text()).toBe(stdout)
  })

  it('prints the newest 1,000, and all as CSV', async () => {
    const many = await keeper()
    for (const _ of [1, 2]) await ask(many, '/events', 'POST', Array(600).fill({ plant: 7, kind: 'mist' }))
    const events = ['plants', 'events', '--account', `account ${callers}`, '--plant', '7']
    const json = await run(...events, '--json')
    expect(JSON.parse(json.stdout)).toHaveLength(1000)
    expect(json.stderr).toBe('These are the newest 1000 events. Give --to for older ones, or --csv for all.\n')
    expect((await run(...events, '--csv')).stdout.split('\r\n')).toHaveLength(1202)
    const csv = await many.send('/plants/7/events?format=csv&limit=5&kind=mist')
    expect((await csv.text()).split('\r\n')).toHaveLength(1202)
    expect(csv.headers.get('x-ignored-params')).toBe('limit')
  })
})

describe('conservatory accounts delete', () => {
  it('deletes schedules, logs and events with the account', async () => {
    const gone = await keeper([
      { id: 1, name: 'Fern' },
      { id: 2, name: 'Moss' },
    ])
    const account = `account ${callers}`
    await ask(gone, '/plants/1/care/water', 'PUT', { every_days: 7 })
    await ask(gone, '/events', 'POST', Array(600).fill({ plant: 1, kind: 'mist' }))
    await ask(gone, '/plants/2/events', 'POST', { kind: 'feed' }, { 'idempotency-key': 'k' })
    expect((await run('check')).code).toBe(0)
    expect(await run('accounts', 'delete', account)).toMatchObject({ code: 0 })
    for (const [table, owner] of [
      ['care_rules', 'account'],
      ['care_logs', 'owner'],
      ['holdings', 'account'],
      ['kept_replies', 'account'],
    ]) {
      expect([table, await sql.run(`SELECT 1 FROM ${table} WHERE ${owner} = ?`, gone.account)]).toEqual([table, []])
    }
    expect(await sql.run('SELECT 1 FROM care_events WHERE log NOT IN (SELECT log FROM care_logs)')).toEqual([])
  })
})

describe('a mistake', () => {
  it.each([
    [['care', 'due'], 2, 'The option --account <name> is missing'],
    [['care', 'due', '--account', 'nobody'], 1, 'There is no account "nobody"'],
    [['care', 'due', '--account', 'owner', '--within', 'forever'], 2, '"within" is no number of days from 0d to 366d'],
    [['plants', 'events', '--account', 'owner', '--plant', 'x'], 2, 'Give a whole number.'],
    [['plants', 'events', '--account', 'owner', '--plant', '9'], 1, 'no plant with this id'],
    [['plants', 'events', '--account', 'owner', '--plant', '9', '--from', 'soon'], 2, '"from" is neither Unix seconds'],
  ])('in %j ends with a sentence', async (words, code, said) => {
    const ended = await run(...words)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toContain(said)
  })
})
