import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { AccessStore } from '../../src/access/access.ts'
import { compileCache, conservatory, conservatoryProcess, type Ended, serveForThisTest } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { makeDatabase, onceKnown, storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

function folderForThisTest(): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  return path
}

type Run = (...args: readonly string[]) => Promise<Ended>

/** Makes a data folder. @returns a function that runs commands with this folder, and its accounts and keys */
async function commandsForThisTest(): Promise<{ readonly run: Run; readonly access: AccessStore }> {
  const folder = folderForThisTest()
  const { access } = await storesForThisTest(folder)
  return { run: (...args) => conservatory(args, { DATA_DIR: folder }), access }
}

/** Checks that a command was refused with exactly these lines on stderr, and with nothing on stdout. */
function expectRefused(ended: Ended, code: 1 | 2, ...lines: readonly (string | RegExp)[]): void {
  expect(ended).toMatchObject({ code, stdout: '' })
  const said = ended.stderr.split('\n').slice(0, -1)
  expect(said).toHaveLength(lines.length)
  for (const [index, line] of lines.entries()) {
    if (typeof line === 'string') expect(said[index]).toBe(line)
    else expect(said[index]).toMatch(line)
  }
}

interface ListedKey {
  readonly prefix: string
  readonly account: string
  readonly name: string | null
  readonly scopes: readonly string[]
  readonly created: number
  readonly expires: number | null
  readonly revoked: number | null
}

function readKeys({ stdout }: Ended): readonly ListedKey[] {
  return JSON.parse(stdout)
}

function startHere(environment: Record<string, string>): Promise<SpawnedService> {
  return spawnService(process.execPath, ['src/main.ts', 'serve'], { environment: { ...compileCache, ...environment } })
}

describe('accounts', () => {
  it('are created and listed, as a table and as JSON', async () => {
    const { run } = await commandsForThisTest()
    const before = Math.floor(Date.now() / 1000)
    const made = await run('accounts', 'create', ' Ann of the Glass-House_2 ')
    expect(made).toMatchObject({ code: 0, stdout: '' })
    expect(made.stderr).toBe(
      'The account "Ann of the Glass-House_2" is made. Give it a key: conservatory keys create\n',
    )
    await run('accounts', 'create', 'Ørjan@example.org')
    const [table, json] = await Promise.all([run('accounts', 'list'), run('accounts', 'list', '--json')])
    expect({ table: table.stderr, json: json.stderr }).toStrictEqual({ table: '', json: '' })
    expect(JSON.parse(json.stdout)).toStrictEqual([
      {
        name: 'Ann of the Glass-House_2',
        models: null,
        time_zone: null,
        created: expect.any(Number),
        suspended: null,
        limits: {},
      },
      {
        name: 'Ørjan@example.org',
        models: null,
        time_zone: null,
        created: expect.any(Number),
        suspended: null,
        limits: {},
      },
    ])
    const [first] = JSON.parse(json.stdout)
    expect(first.created).toBeGreaterThanOrEqual(before)
    expect(first.created).toBeLessThanOrEqual(Date.now() / 1000)
    const time = '20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.000Z'
    expect(table.stdout).toMatch(
      new RegExp(
        `^NAME {22}MODELS {2}TIME_ZONE {2}CREATED {19}SUSPENDED {2}LIMITS\nAnn of the Glass-House_2 {2}- {7}- {10}${time} {2}- {10}-\nØrjan@example\\.org {9}- {7}- {10}${time} {2}- {10}-\n$`,
      ),
    )
  })

  it('are refused with a taken or malformed name: one sentence, exit code 1', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('ann')
    const [taken, ...malformed] = await Promise.all(
      ['ann ', '   ', '../ann', 'ann\u001b[31m', '-ann', 'a'.repeat(101)].map((name) =>
        run('accounts', 'create', '--', name),
      ),
    )
    if (taken) expectRefused(taken, 1, 'There is an account "ann" already.')
    expect(malformed).toHaveLength(5)
    for (const ended of malformed) expectRefused(ended, 1, /^".*" cannot be an account's name; use up to 100 letters/)
    expect((await access.listAccounts()).map(({ name }) => name)).toStrictEqual(['ann'])
  })

  it('are an empty list before the first is created, and so are keys', async () => {
    const { run } = await commandsForThisTest()
    for (const what of ['accounts', 'keys']) {
      expect(await run(what, 'list', '--json')).toStrictEqual({ code: 0, stdout: '[]\n', stderr: '' })
      expect(await run(what, 'list')).toStrictEqual({ code: 0, stdout: '', stderr: '' })
    }
  })
})

describe('keys', () => {
  it('are printed once, without other text on stdout, and later listed without their secrets', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('ann')
    await access.createAccount('bob')
    const made = await Promise.all([
      run('keys', 'create', '--account', 'ann', '--scopes', 'chat'),
      run(
        'keys',
        'create',
        '--account',
        'bob',
        '--scopes',
        'plants:read, plants:write,chat,chat',
        '--name',
        'Bob’s phone',
      ),
      run('keys', 'create', '--account', 'bob', '--scopes', 'admin', '--expires', '2099-12-31T23:59:59+01:00'),
    ])
    for (const ended of made) {
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(ended.stdout).toMatch(/^cv_[0-9A-Za-z]{38}\n$/)
    }
    const secrets = made.map(({ stdout }) => stdout.trim())
    expect(new Set(secrets).size).toBe(3)

    const lists = await Promise.all([
      run('keys', 'list', '--json'),
      run('keys', 'list'),
      run('keys', 'list', '--account', 'bob', '--json'),
      run('keys', 'list', '--account', 'bob'),
    ])
    for (const { code, stdout, stderr } of lists) {
      expect({ code, stderr }).toStrictEqual({ code: 0, stderr: '' })
      for (const secret of secrets) expect(stdout).not.toContain(secret.slice(7))
      expect(stdout).not.toMatch(/digest|secret/i)
    }
    const [all, , bobs, table] = lists
    const listed = all ? readKeys(all) : []
    expect(listed.map(({ prefix }) => prefix).toSorted()).toStrictEqual(
      secrets.map((key) => key.slice(0, 11)).toSorted(),
    )
    const common = { created: expect.any(Number), revoked: null, last_used: null, limits: {} }
    expect(listed.find(({ account }) => account === 'ann')).toStrictEqual({
      ...common,
      prefix: secrets[0]?.slice(0, 11),
      account: 'ann',
      name: null,
      scopes: ['chat'],
      models: null,
      expires: null,
    })
    const ofBob = bobs ? readKeys(bobs) : []
    expect(ofBob.map(({ account }) => account)).toStrictEqual(['bob', 'bob'])
    expect(ofBob.find(({ name }) => name === 'Bob’s phone')?.scopes).toStrictEqual([
      'plants:read',
      'plants:write',
      'chat',
    ])
    expect(ofBob.find(({ scopes }) => scopes.includes('admin'))?.expires).toBe(
      Date.UTC(2099, 11, 31, 22, 59, 59) / 1000,
    )
    expect(table?.stdout).toMatch(
      /^PREFIX +ACCOUNT +NAME +SCOPES +MODELS +CREATED +EXPIRES +REVOKED +LAST_USED +LIMITS\n/,
    )
    expect(table?.stdout).toContain('2099-12-31T22:59:59.000Z')
  })

  it('are revoked once, by the prefix or the whole key, and their secret is never repeated', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('ann')
    const create = async () => (await access.createKey({ account: 'ann', scopes: ['chat'] })).secret
    const [one, other, kept] = [await create(), await create(), await create()]
    for (const [secret, argument] of [
      [one, one.slice(0, 11)],
      [other, other],
    ] as const) {
      const revoked = await run('keys', 'revoke', argument)
      expect(revoked).toStrictEqual({
        code: 0,
        stdout: '',
        stderr: `The key ${secret.slice(0, 11)} of "ann" is revoked.\n`,
      })
      expectRefused(await run('keys', 'revoke', argument), 1, `The key ${secret.slice(0, 11)} is revoked already.`)
    }
    const unknown = [`${kept.slice(0, -1)}!`, kept.slice(0, 3), kept.slice(0, 12), '%', "' OR 1=1 --", '']
    for (const ended of await Promise.all(unknown.map((argument) => run('keys', 'revoke', '--', argument)))) {
      expectRefused(ended, 1, 'There is no such key. See: conservatory keys list')
    }
    const listed = readKeys(await run('keys', 'list', '--json'))
    expect(Object.fromEntries(listed.map(({ prefix, revoked }) => [prefix, revoked]))).toStrictEqual({
      [one.slice(0, 11)]: expect.any(Number),
      [other.slice(0, 11)]: expect.any(Number),
      [kept.slice(0, 11)]: null,
    })
  })

  it('are refused with one sentence and exit code 1 or 2, and no key is created', async () => {
    const { run, access } = await commandsForThisTest()
    await access.createAccount('ann')
    const refused: readonly (readonly [readonly string[], string | RegExp])[] = [
      [['--account', 'nobody', '--scopes', 'chat'], 'There is no account "nobody". See: conservatory accounts list'],
      [['--account', 'ann', '--scopes', 'chat', '--name', 'a\nb'], /control characters/],
    ]
    const ended = await Promise.all(refused.map(([args]) => run('keys', 'create', ...args)))
    for (const [index, [, sentence]] of refused.entries()) {
      const one = ended[index]
      if (one) expectRefused(one, 1, sentence)
    }
    const malformed = [
      ...['chat,fly,Chat', '', 'chat plants:read'].map((scopes) => ['--scopes', scopes]),
      ...['tomorrow', '2099-02-30', '2099-02-30T12:00:00Z', '2099-01-01T12:00', '4102444800', '', '2020-01-01'].map(
        (expires) => ['--scopes', 'chat', '--expires', expires],
      ),
    ]
    for (const args of malformed) {
      const ended = await run('keys', 'create', '--account', 'ann', ...args)
      expectRefused(ended, 2, /^Option '--(scopes|expires) .+ is invalid\. .+ See: conservatory keys create --help$/)
    }
    expectRefused(await run('keys', 'list', '--account', 'nobody'), 1, /^There is no account "nobody"\./)
    expect(await access.listKeys()).toStrictEqual([])
  })
})

it('the process ends with the exit code of its command, and prints what the command prints', async () => {
  const settings = { DATA_DIR: folderForThisTest() }
  await makeDatabase(settings.DATA_DIR)
  const commands = [['accounts', 'create', 'ann'], ['accounts', 'create', '-'], ['water'], ['keys', '--help']]
  const codes: unknown[] = []
  for (const command of commands) {
    const apart = await conservatoryProcess(command, settings)
    codes.push(apart.code)
    // `accounts create ann` is not run a second time in this process, because the name is taken then.
    if (apart.code === 0 && command[0] === 'accounts') expect(apart.stderr).toMatch(/^The account "ann" is made\./)
    else expect(apart).toStrictEqual(await conservatory(command, settings))
  }
  expect(codes).toStrictEqual([0, 1, 2, 0])
})

describe('a start that fails', () => {
  it('because of wrong settings names all of them, one per line, and so does every command', async () => {
    const folder = join(folderForThisTest(), 'data')
    const settings = { DATA_DIR: folder, PORT: '70000', LOG_LEVEL: 'loud', CHARACTERS: 'some', BOOTSTRAP_KEY: 'CANARY' }
    const commands = [[], ['serve'], ['accounts', 'list'], ['keys', 'revoke', 'x']]
    for (const ended of await Promise.all(commands.map((args) => conservatory(args, settings)))) {
      expectRefused(
        ended,
        1,
        'BOOTSTRAP_KEY is too short; give at least 16 characters.',
        'PORT is "70000"; give a whole number from 0 to 65535.',
        'LOG_LEVEL is "loud"; give one of trace, debug, info, warn, error, fatal, silent.',
        'CHARACTERS is "some"; give one of open, closed.',
      )
      expect(ended.stderr).not.toContain('CANARY')
    }
    expect(existsSync(folder)).toBe(false)
  })

  it('because the port is taken prints one line that names it, and the other program keeps the port', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    onTestFinished(() => {
      other.close()
    })
    const address = other.address()
    const port = String(typeof address === 'object' ? address?.port : address)
    const folder = folderForThisTest()
    const ended = await conservatory([], { DATA_DIR: folder, PORT: port, LOG_LEVEL: 'warn' })
    expectRefused(ended, 1, `Port ${port} on 127.0.0.1 is in use. Stop what listens there, or set PORT to another.`)
    expect(other.listening).toBe(true)
    // The first key is shown only once, so a start that failed must not have made it.
    const next = await serveForThisTest({ DATA_DIR: folder })
    expect(next.stderr()).toContain('This is the first start.')
    const answer = await fetch(`${next.url}/plants`, { headers: { authorization: `Bearer ${next.key}` } })
    expect(answer.status).toBe(200)
  })

  it('because of the host prints one line that names the host', async () => {
    // 203.0.113.0/24 is for documentation (RFC 5737), .invalid is never a host (RFC 6761).
    const [address, name] = await Promise.all(
      ['203.0.113.7', 'nowhere.invalid'].map((HOST) =>
        conservatory([], { DATA_DIR: folderForThisTest(), PORT: '0', LOG_LEVEL: 'warn', HOST }),
      ),
    )
    if (!address || !name) throw new Error('neither has run')
    expectRefused(address, 1, '203.0.113.7 is not an address of this machine. Set HOST to one that is.')
    expectRefused(name, 1, 'nowhere.invalid is not a known host. Set HOST to an address of this machine.')
  })

  it('because models.json cannot be read prints one line that names the file', async () => {
    const folder = folderForThisTest()
    mkdirSync(join(folder, 'models.json'))
    const ended = await conservatory([], { DATA_DIR: folder, PORT: '0' })
    const sentence = `${join(folder, 'models.json')} cannot be read: the system says EISDIR. It must be a file that this user may read.`
    expectRefused(ended, 1, sentence)
  })

  it('because of the data folder prints one line that names it', async () => {
    const folder = folderForThisTest()
    const file = join(folder, 'file')
    writeFileSync(file, 'kept')
    const paths = [file, join(file, 'data'), join(file, 'deep', 'down')]
    for (const path of paths) {
      const ended = await conservatory([], { DATA_DIR: path, PORT: '0' })
      expectRefused(ended, 1, `The data folder ${path} cannot be written. Set DATA_DIR to a folder that can.`)
    }
    expect(readFileSync(file, 'utf8')).toBe('kept')
  })
})

describe('the service', () => {
  it('prints its first key with two curl lines once, on stderr and never in the log', async () => {
    const folder = folderForThisTest()
    const first = await startHere({ DATA_DIR: folder })
    const said = first.stderr()
    expect(said).toContain(`Conservatory listens on ${first.url} (API reference: ${first.url}/docs)\n`)
    expect(first.key).toMatch(/^cv_[0-9A-Za-z]{38}$/)
    expect(said.split('\n').filter((line) => line.trim() === first.key)).toHaveLength(1)
    const lines = said.match(/^ {2}curl .+$/gm) ?? []
    expect(lines).toHaveLength(2)
    expect(lines[0]).toContain(`${first.url}/plants -H "Authorization: Bearer ${first.key}"`)
    expect(lines[1]).toContain(`${first.url}/chat/completions -H "Authorization: ${first.key}"`)
    expect((await fetch(`${first.url}/plants`, { headers: { authorization: `Bearer ${first.key}` } })).status).toBe(200)
    const [refused] = await Promise.all([
      fetch(`${first.url}/plants?key=${first.key}`, { headers: { authorization: `Bearer ${first.key}x` } }),
      fetch(`${first.url}/nothing/${first.key}`),
    ])
    expect(refused.status).toBe(401)
    first.process.kill('SIGTERM')
    expect(await first.exited).toBe(0)
    const log = first.stdout().trim().split('\n')
    expect(log.length).toBeGreaterThanOrEqual(3)
    for (const line of log)
      expect(JSON.parse(line)).toMatchObject({ level: expect.any(Number), time: expect.any(String) })
    expect(first.stdout()).not.toContain(first.key.slice(7))

    const second = await serveForThisTest({ DATA_DIR: folder })
    expect(second.stderr()).toBe(`Conservatory listens on ${second.url} (API reference: ${second.url}/docs)\n`)
    expect(second.stdout()).not.toContain(first.key.slice(7))
    const again = await fetch(`${second.url}/plants`, { headers: { authorization: `Bearer ${first.key}` } })
    expect(again.status).toBe(200)
    // The log of a service in this process would count as the command's output.
    await second.close()
    const accounts = await conservatory(['accounts', 'list', '--json'], { DATA_DIR: folder })
    expect(JSON.parse(accounts.stdout)).toStrictEqual([
      { name: 'owner', models: null, time_zone: null, created: expect.any(Number), suspended: null, limits: {} },
    ])
    const [key, ...others] = readKeys(await conservatory(['keys', 'list', '--json'], { DATA_DIR: folder }))
    expect(others).toStrictEqual([])
    expect(key).toMatchObject({
      account: 'owner',
      scopes: ['plants:read', 'plants:write', 'chat', 'characters:write', 'keys', 'admin'],
      expires: null,
    })
  })

  it('takes BOOTSTRAP_KEY as its first key, and warns of another BOOTSTRAP_KEY at later starts', async () => {
    const folder = folderForThisTest()
    const preset = `it's "my" $HOME \\ key`
    const first = await serveForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: preset })
    const works = async (url: string, key: string) =>
      (await fetch(`${url}/plants`, { headers: { authorization: `Bearer ${key}` } })).status === 200
    expect(await works(first.url, preset)).toBe(true)
    const said = first.stderr()
    expect(said).toContain('This is the first start.')
    const lines = said.match(/(?<=^ {2}curl ).+$/gm) ?? []
    // The operator pastes the printed lines into a shell that has exported the key; this is what the shell makes of them.
    const env = { PATH: process.env['PATH'], BOOTSTRAP_KEY: preset }
    const words = lines.map((line) =>
      execFileSync('sh', ['-c', `printf '%s\\n' ${line}`], { env, encoding: 'utf8' }).split('\n'),
    )
    expect(words).toHaveLength(2)
    expect(words[0]).toContain(`Authorization: Bearer ${preset}`)
    expect(words[1]).toContain(`Authorization: ${preset}`)
    expect(said + first.stdout()).not.toContain(preset.slice(0, 12))
    expect(first.stdout()).not.toMatch(/BOOTSTRAP_KEY|"level":(?:[4-9]0)/)
    await first.close()

    const same = await serveForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: preset })
    expect(await works(same.url, preset)).toBe(true)
    await same.close()

    const late = await serveForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: 'CANARY that came too late' })
    await eventually(() => expect(late.stdout()).toMatch(/"level":40.*BOOTSTRAP_KEY is ignored/))
    expect(same.stdout()).not.toContain('BOOTSTRAP_KEY')
    expect(late.stdout() + late.stderr()).not.toContain('CANARY')
    expect(late.stderr()).not.toContain('first start')
    expect(await works(late.url, 'CANARY that came too late')).toBe(false)
    expect(await works(late.url, preset)).toBe(true)
  })

  it('logs each request in one line, with the id of the reply and no text of a caller', async () => {
    const service = await serveForThisTest({})
    const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' }
    const replies = [
      await fetch(`${service.url}/plants?tag=CANARY`, { headers }),
      await fetch(`${service.url}/plants`, { method: 'POST', headers, body: '{"name": "CANARY"}' }),
      await fetch(`${service.url}/plants`, { method: 'POST', headers, body: '{"name": CANARY}' }),
      await fetch(`${service.url}/CANARY`),
    ]
    // A client that leaves in the middle of its body is no error of the service either.
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    const leaving = `Authorization: Bearer ${service.key}\r\nContent-Type: application/json\r\nContent-Length: 99`
    socket.write(`POST /plants HTTP/1.1\r\nHost: x\r\n${leaving}\r\n\r\n{"name": "CANARY`)
    await once(socket, 'connect')
    await fetch(`${service.url}/livez`)
    socket.destroy()
    const logged = () =>
      service
        .stdout()
        .trim()
        .split('\n')
        .map((line): Record<string, unknown> => JSON.parse(line))
        .filter(
          ({ msg }) =>
            msg !== undefined &&
            !/^(?:Conservatory starts|Server listening|the characters are read|audit record)/.test(String(msg)),
        )
    await eventually(() => expect(logged().length).toBeGreaterThanOrEqual(replies.length + 2))
    const lines = logged()
    expect(lines).toHaveLength(replies.length + 2)
    for (const reply of replies) {
      const [line, ...more] = lines.filter(({ request_id }) => request_id === reply.headers.get('x-request-id'))
      expect(more).toStrictEqual([])
      expect(line).toMatchObject({ level: 30, status: reply.status, ms: expect.any(Number) })
    }
    for (const line of lines) {
      expect(line).toMatchObject({ level: 30, msg: 'request' })
      expect(line['status']).toBeLessThan(500)
    }
    expect(service.stdout()).not.toContain('CANARY')
    expect(service.stdout()).not.toContain(service.key.slice(7))
  })

  it('sees the changes of commands that run beside it', async () => {
    const service = await serviceForThisTest()
    const run = (...args: readonly string[]) => conservatory(args, { DATA_DIR: service.dataDirectory })
    expect((await run('accounts', 'create', 'ann')).code).toBe(0)
    const made = await Promise.all([
      run('keys', 'create', '--account', 'ann', '--scopes', 'plants:read,plants:write'),
      run('keys', 'create', '--account', 'ann', '--scopes', 'chat'),
    ])
    const [plants = '', chat = ''] = made.map(({ stdout }) => stdout.trim())
    const status = async (path: string, key: string) =>
      (await fetch(service.url + path, { headers: { authorization: `Bearer ${key}` } })).status
    expect(await status('/plants', plants)).toBe(200)
    expect(await status('/plants', chat)).toBe(403)
    expect(await status('/models', chat)).toBe(200)
    expect(await status('/models', plants)).toBe(403)
    expect((await run('keys', 'revoke', plants.slice(0, 11))).code).toBe(0)
    await onceKnown(async () => expect(await status('/plants', plants)).toBe(401))
    expect(await status('/models', chat)).toBe(200)
    expect(await status('/plants', service.key)).toBe(200)
  })

  it.for(['SIGTERM', 'SIGINT'] as const)(
    'that runs by npm start ends at %s with exit code 0, and frees the port',
    async (signal) => {
      const service = await spawnService('npm', ['start'])
      const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' }
      const body = '{"name": "Monstera"}'
      expect((await fetch(`${service.url}/plants`, { method: 'POST', headers, body })).status).toBe(200)
      service.process.kill(signal)
      expect(await service.exited).toBe(0)
      const next = createServer().listen(Number(new URL(service.url).port), '127.0.0.1')
      await once(next, 'listening')
      next.close()
      const sql = await sqlForThisTest(service.dataDirectory)
      expect(await sql.run('SELECT name FROM plants')).toStrictEqual([{ name: 'Monstera' }])
    },
  )
})
