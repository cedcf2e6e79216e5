import { describe, expect, test } from 'vitest'
import { csvOf } from '../../src/usage/commands.ts'
import { conservatory, type Ended } from '../support/command.ts'
import { type LedgerRow, putIntoLedger } from '../support/ledger.ts'
import { serviceForThisTest } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

type Run = (...args: readonly string[]) => Promise<Ended>

/** Starts a service with these requests in its ledger. @returns a function that runs `conservatory usage …` beside the service */
async function commandForThisTest(rows: readonly LedgerRow[]): Promise<Run> {
  const service = await serviceForThisTest()
  await service.makeKey('greenhouse')
  await putIntoLedger(await sqlForThisTest(service.dataDirectory), rows)
  return (...args) => conservatory(['usage', ...args], { DATA_DIR: service.dataDirectory })
}

const november = ['--from', '2026-11-01', '--to', '2026-11-30']

describe('conservatory usage', () => {
  test('sums all accounts, or one, beside a running service', async () => {
    const run = await commandForThisTest([
      { created: '2026-11-19T10:00:00Z', promptTokens: 10, completionTokens: 5 },
      { created: '2026-11-20T10:00:00Z', account: 2, promptTokens: 30, completionTokens: 1, state: 'timeout' },
      { created: '2026-11-20T11:00:00Z', account: 77, promptTokens: 2 },
    ])
    const [table, byAccount, one, csv, none] = await Promise.all([
      run(...november),
      run(...november, '--by', 'account', '--json'),
      run(...november, '--by', 'key', '--account', 'greenhouse', '--json'),
      run(...november, '--by', 'account', '--csv'),
      run('--from', '2025-11-01', '--to', '2025-11-02', '--csv'),
    ])
    expect(table).toEqual({
      code: 0,
      stdout: [
        'DAY         REQUESTS  PROMPT_TOKENS  COMPLETION_TOKENS  FAILED',
        '2026-11-19  1         10             5                  0',
        '2026-11-20  2         32             1                  1',
        '',
      ].join('\n'),
      stderr: '',
    })
    // No account has the id 77, as after a deletion, so the line has no name.
    expect(JSON.parse(byAccount.stdout)).toEqual([
      { account: 'greenhouse', requests: 1, prompt_tokens: 30, completion_tokens: 1, failed: 1 },
      { account: 'owner', requests: 1, prompt_tokens: 10, completion_tokens: 5, failed: 0 },
      { account: null, requests: 1, prompt_tokens: 2, completion_tokens: 0, failed: 0 },
    ])
    expect(JSON.parse(one.stdout)).toEqual([
      { key: 'cv_ab12', requests: 1, prompt_tokens: 30, completion_tokens: 1, failed: 1 },
    ])
    const header = 'requests,prompt_tokens,completion_tokens,failed'
    expect(csv.stdout).toBe(`account,${header}\r\ngreenhouse,1,30,1,1\r\nowner,1,10,5,0\r\n,1,2,0,0\r\n`)
    expect(none).toEqual({ code: 0, stdout: `day,${header}\r\n`, stderr: '' })
  })

  test('prints no name that could control the terminal or a spreadsheet', async () => {
    const run = await commandForThisTest([
      { created: '2026-11-20T10:00:00Z', model: '=HYPERLINK("http://evil.example")' },
      { created: '2026-11-20T10:00:00Z', model: 'red \u001b[31m\r\nline' },
    ])
    const [table, csv] = await Promise.all([
      run(...november, '--by', 'model'),
      run(...november, '--by', 'model', '--csv'),
    ])
    expect(table.stdout).toContain('red \\u001b[31m\\u000d\\u000aline ')
    expect(csv.stdout).toContain('\r\n"\'=HYPERLINK(""http://evil.example"")",1,0,0,0\r\n')
    expect(csv.stdout).toContain('\r\nred \\u001b[31m\\u000d\\u000aline,1,0,0,0\r\n')
  })

  test('refuses invalid options in one sentence', async () => {
    const run = await commandForThisTest([])
    const [day, account, by, both] = await Promise.all([
      run('--from', '2026-02-30'),
      run('--account', 'nobody'),
      run('--by', 'hour'),
      run('--json', '--csv'),
    ])
    expect(day).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^The value of "from" .*\.\n$/) })
    const unknown = 'There is no account "nobody". See: conservatory accounts list\n'
    expect(account).toMatchObject({ code: 1, stdout: '', stderr: unknown })
    expect(by).toMatchObject({ code: 2, stdout: '' })
    expect(both).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('CSV', () => {
  test.each([
    ['plain', 'plain'],
    ['', ''],
    [null, ''],
    [-5, '-5'],
    ['a,b', '"a,b"'],
    ['say "hi"', '"say ""hi"""'],
    ['two\nlines', '"two\nlines"'],
    ['=1+1', "'=1+1"],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['＝1', "'＝1"],
    [' =1', "' =1"],
    ['\t=1', "'\t=1"],
    ['\r=1', '"\'\r=1"'],
    ['"=1"', '"""=1"""'],
    ['Fern@sha256:0d', 'Fern@sha256:0d'],
  ])('writes %j so that it is read back, and never as a formula', (cell, written) => {
    expect(csvOf(['a', 'b'], [[cell, 1]])).toBe(`a,b\r\n${written},1\r\n`)
  })
})
