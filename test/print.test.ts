import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { print, printable, printableLines } from '../src/print.ts'
import { conservatory } from './support/command.ts'
import { until } from './support/eventually.ts'
import { putIntoLedger } from './support/ledger.ts'
import { spawnService } from './support/process.ts'
import { serviceForThisTest } from './support/service.ts'
import { storesForThisTest } from './support/test-database.ts'
import { sqlForThisTest } from './support/test-sql.ts'

/** A text that changes the writing direction and the colour (with CSI as one character), and has a DEL. */
const nasty = 'phone \u202egnp.\u2066exe\u2069\u061c \u009b31m\u007f'
/** A text that also clears the screen and begins a new line. */
const nastier = `${nasty}\u001b[2J\r\nowner`
const spelledOut = 'phone \\u202egnp.\\u2066exe\\u2069\\u061c \\u009b31m\\u007f'

/** All characters that control a terminal, except line ends. */
const steering = /(?!\r?\n)[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u

describe('an untrusted text', () => {
  test('is escaped where it would control a terminal, and nowhere else', () => {
    expect(printable(nastier)).toBe(`${spelledOut}\\u001b[2J\\u000d\\u000aowner`)
    expect(printableLines(`${nasty}\r\n${nasty}\n\r`)).toBe(`${spelledOut}\r\n${spelledOut}\n\\u000d`)
    const harmless = 'Grünlilie שלום 🌵 \\u202e "quoted"'
    expect([printable(harmless), printableLines(harmless)]).toEqual([harmless, harmless])
    for (let code = 0; code < 0x3000; code++) {
      const character = String.fromCodePoint(code)
      expect(printable(character)).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u)
    }
  })

  test.each([
    [true, spelledOut],
    [false, nasty],
  ])('is printed unchanged for programs, and escaped on a terminal (terminal: %s)', (isTerminal, expected) => {
    const pieces: string[] = []
    const write = vi.spyOn(process.stdout, 'write').mockImplementation((piece) => pieces.push(String(piece)) > 0)
    const before = process.stdout.isTTY
    process.stdout.isTTY = isTerminal
    onTestFinished(() => {
      process.stdout.isTTY = before
    })
    print(`${nasty}\n`)
    print(Buffer.from(nasty))
    write.mockRestore()
    expect(pieces.join('')).toBe(`${expected}\n${expected}`)
  })
})

describe('commands', () => {
  test('escape names of callers and of other operators', async () => {
    const service = await serviceForThisTest()
    const { access, plants } = await storesForThisTest(service.dataDirectory)
    const made = await service.request('/keys', { json: { scopes: ['chat'], name: nasty.replace(/\p{Cc}/gu, '') } })
    expect(made.status).toBe(201)
    await access.createAccount('ann')
    const [owner, ann] = await access.listAccounts()
    await plants.share(owner?.id ?? 0, ann?.id ?? 0, nasty.replace(/\p{Cc}/gu, ''))
    const created = '2026-11-20T10:00:00Z'
    await putIntoLedger(await sqlForThisTest(service.dataDirectory), [
      { created, model: nastier, character: nastier, key: 'cv_ab12' },
    ])
    const november = ['--from', '2026-11-01', '--to', '2026-11-30']
    const usage = ['model', 'character'].flatMap((by) =>
      [[], ['--json'], ['--csv']].map((form) => ['usage', ...november, '--by', by, ...form]),
    )
    const lists = [
      ['keys', 'list'],
      ['plants', 'shares'],
      ['accounts', 'list'],
      ['characters', 'list'],
    ]
    const commands = [...lists, ...lists.map((list) => [...list, '--json']), ...usage]
    const refused = [
      ['keys', 'revoke', nasty],
      ['plants', 'unshare', '--from', nasty, '--to', 'ann'],
      [nasty],
      ['keys', nasty],
    ]
    for (const words of [...commands, ...refused]) {
      const { stdout, stderr, code } = await conservatory(words, { DATA_DIR: service.dataDirectory })
      expect([words, steering.exec(stdout + stderr)]).toEqual([words, null])
      expect([words, code === 0]).toEqual([words, commands.includes(words)])
      if (words.includes('--json')) expect(JSON.parse(stdout)).toEqual(expect.any(Array))
    }
    const inJson = await conservatory(['usage', ...november, '--by', 'model', '--json'], {
      DATA_DIR: service.dataDirectory,
    })
    expect(JSON.parse(inJson.stdout)).toEqual([expect.objectContaining({ model: nastier })])
    expect((await conservatory(['keys', 'list'], { DATA_DIR: service.dataDirectory })).stdout).toContain('\\u202egnp.')
  })

  test('escape names in the log of the service, whose lines parse as the same text', async () => {
    const environment = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' }
    const service = await spawnService(process.execPath, ['src/main.ts'], { environment })
    const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: nasty, messages: [{ role: 'user', content: 'Hello' }] })
    await (await fetch(`${service.url}/chat/completions`, { method: 'POST', headers, body })).text()
    const lines = () =>
      service
        .stdout()
        .split('\n')
        .filter((text) => text.includes('"model"'))
    // One line says why the model failed, the other is the line of the request.
    await until(() => lines().length === 2)
    for (const line of lines()) expect(line).not.toMatch(steering)
    const [failure, request] = lines().map((line) => JSON.parse(line))
    expect(failure).toMatchObject({ err: { model: nasty, code: 'ECONNREFUSED' } })
    expect(request).toMatchObject({ model: nasty })
  })
})
