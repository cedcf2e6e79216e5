import { expect, it, onTestFinished } from 'vitest'
import { allRecords } from '../support/audit.ts'
import { conservatory } from '../support/command.ts'
import { temporaryFolder } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'

async function commandsForThisTest() {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const stores = await storesForThisTest(path)
  return { stores, run: (line: string) => conservatory(line.split(' '), { DATA_DIR: path }) }
}

it('prints all records, or only those of an account, from a moment on, or of an action: as JSON or as a table', async () => {
  const { stores, run } = await commandsForThisTest()
  await stores.access.createAccount('ann')
  await stores.access.createAccount('bob')
  await stores.access.createKey({ account: 'ann', scopes: ['chat'], name: 'tablet \u202e' })
  await stores.deleteAccount('ann')
  const records = await allRecords(stores)
  const json = async (line: string): Promise<{ action: string; target: string }[]> => {
    const ended = await run(`audit --json ${line}`.trim())
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    return JSON.parse(ended.stdout)
  }
  expect(await json('')).toEqual(records)
  const actions = async (line: string) => (await json(line)).map(({ action, target }) => `${action} ${target}`)
  const key = records[2]?.target
  expect(await actions('--account ann')).toEqual(['account.created ann', `key.created ${key}`, 'account.deleted ann'])
  expect(await actions('--account nobody')).toEqual([])
  expect(await actions('--action account.created')).toEqual(['account.created ann', 'account.created bob'])
  expect(await json('--since 2020-01-01')).toEqual(records)
  expect(await json('--since 2999-01-01T00:00:00Z')).toEqual([])
  const table = (await run('audit')).stdout
  expect(table).toMatch(
    /^AT +ACTOR +ACCOUNT +FROM +ACTION +TARGET +BEFORE +AFTER\n\d{4}-\d\d-\d\dT\S+ +command_line +- +- +account.created +ann +- +\{/,
  )
  expect(table.trimEnd().split('\n')).toHaveLength(records.length + 1)
  expect(table).toContain('tablet \\u202e')
})

it('prints each record once, also if there are more records than one page has', async () => {
  const { stores, run } = await commandsForThisTest()
  await stores.access.createAccount('ann')
  const { key } = await stores.access.createKey({ account: 'ann', scopes: ['chat'] })
  const entry = { action: 'key.limited', target: key.prefix, account: null, before: null, after: null } as const
  const { commandLine } = await import('../../src/audit/record.ts')
  await Promise.all(Array.from({ length: 1100 }, () => stores.audit.record(commandLine, entry)))
  const printed: { id: string }[] = JSON.parse((await run('audit --json')).stdout)
  const ids = printed.map(({ id }) => id)
  expect(ids).toEqual((await allRecords(stores)).map(({ id }) => id))
  expect(new Set(ids).size).toBe(1102)
}, 60_000)

it.each([
  [
    'audit --since soon',
    'The value of "since" is not a day or a moment: write it like 2026-11-20 or 2026-11-20T08:00:00Z.\n',
  ],
  ['audit --since 2026-02-30', 'The value of "since" is not a day or a moment'],
  ['audit --since', "Option '--since <day>' argument missing. See: conservatory audit --help"],
  [
    'audit --action key.made',
    "Option '--action <name>' argument 'key.made' is invalid. Allowed choices are key.created, ",
  ],
  ['audit all', "Too many arguments for 'audit': it takes none, not 1."],
])('refuses %s', async (line, sentence) => {
  const { run } = await commandsForThisTest()
  const ended = await run(line)
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(sentence) })
  expect(ended.stderr.trimEnd()).not.toContain('\n')
})
