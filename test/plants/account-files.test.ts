import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { AccessError } from '../../src/access/access.ts'
import { headerLine, plantLine, readAccountFile } from '../../src/plants/account-file.ts'
import { query, type Value } from '../../src/storage/scripts.ts'
import {
  type AccountsHere,
  accountsIn,
  fileOf,
  idOf,
  plantHard,
  hardPlants as plants,
  plantsIn,
  plantsOf,
} from '../support/account-files.ts'
import { compileCache } from '../support/command.ts'
import { expectError } from '../support/http.ts'
import { putIntoLedger } from '../support/ledger.ts'
import { projectFolder } from '../support/process.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { onceKnown, settingsOf } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

function folderForThisTest(): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  return path
}

function startHere(folder = folderForThisTest()): Promise<AccountsHere> {
  return accountsIn(folder)
}

describe('accounts export', () => {
  it('prints a header and the plants, which import reads back, from a file and from stdin', async () => {
    const here = await startHere()
    await plantHard(here, 'ann')
    const exported = await here.run('accounts', 'export', 'ann')
    expect(exported).toMatchObject({ code: 0, stderr: '' })
    const lines = exported.stdout.trimEnd().split('\n')
    expect(lines.map((line): unknown => JSON.parse(line))).toStrictEqual([
      { object: 'account', format: 'conservatory-account', version: 2, account: 'ann', plants: 3, belongings: 0 },
      ...plants.map((plant) => ({
        ...plant,
        created: expect.any(Number),
        updated: expect.any(Number),
        version: expect.any(Number),
      })),
    ])
    const file = join(here.folder, 'ann.jsonl')
    writeFileSync(file, exported.stdout)
    const imported = await here.run('accounts', 'import', 'bob', file)
    expect(imported).toMatchObject({ code: 0, stdout: '', stderr: 'The account "bob" now has 3 plants more.\n' })
    expect(await plantsOf(here, 'bob')).toStrictEqual(plants)

    await here.stores.access.createAccount('carol')
    const piped = spawnSync(process.execPath, ['src/main.ts', 'accounts', 'import', 'carol'], {
      cwd: projectFolder,
      env: { ...process.env, ...compileCache, ...(await settingsOf(here.folder)) },
      input: exported.stdout,
      timeout: 20_000,
    })
    expect(piped.status).toBe(0)
    expect(await plantsOf(here, 'carol')).toStrictEqual(plants)
  })

  it('of an unknown account is refused', async () => {
    const here = await startHere()
    const ended = await here.run('accounts', 'export', 'nobody')
    expect(ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^There is no account "nobody"/) })
  })

  it('can be read back with any names of plants, in pieces of any length', async () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).map((name) => `x${name}x`)
    const plant = fc.record({ id: fc.maxSafeInteger(), name: text, tag: text }, { requiredKeys: ['id', 'name'] })
    await fc.assert(
      fc.asyncProperty(fc.array(plant, { maxLength: 5 }), fc.integer({ min: 1, max: 99 }), async (list, length) => {
        fc.pre(list.every(({ name, tag }) => !/\p{Cc}/u.test(`${name}${tag}`)))
        expect(await plantsIn(fileOf(list), length)).toEqual(list)
        expect(await plantsIn(`\uFEFF${fileOf(list).replaceAll('\n', '\r\n')}\n \n`, length)).toEqual(list)
      }),
    )
  })
})

describe('accounts import', () => {
  it('adds all plants or no plant, and reports a taken id with its line', async () => {
    const here = await startHere()
    await here.stores.plants.create(await idOf(here, 'ann'), { id: 2, name: 'mine' })
    const attempts = [
      [
        [
          { id: 1, name: 'a' },
          { id: 2, name: 'b' },
        ],
        'Line 3: there is a plant with the id 2 already.',
      ],
      [
        [
          { id: 1, name: 'a' },
          { id: 3, name: 'b' },
          { id: 1, name: 'c' },
        ],
        'Line 4: there is a plant with the id 1 already, on line 2. Nothing was imported.',
      ],
    ] as const
    for (const [list, sentence] of attempts) {
      const file = join(here.folder, 'file.jsonl')
      writeFileSync(file, headerLine('x', list.length) + list.map(plantLine).join(''))
      const ended = await here.run('accounts', 'import', 'ann', file)
      expect(ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(sentence) })
      expect(await plantsOf(here, 'ann')).toStrictEqual([{ id: 2, name: 'mine' }])
    }
    const ended = await here.run('accounts', 'import', 'ann', join(here.folder, 'none.jsonl'))
    expect(ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^The file ".*none\.jsonl" cannot be read\.\n$/),
    })
    const file = join(here.folder, 'file.jsonl')
    expect((await here.run('accounts', 'import', 'nobody', file)).stderr).toMatch(/^There is no account "nobody"/)
  })

  const header = headerLine('ann', 1)
  it.for([
    ['', /^Line 1: this is not an account's file/],
    ['{"id":1,"name":"a"}\n', /^Line 1: this is not an account's file/],
    [header.replace('"version":2', '"version":3'), /^Line 1: the version 3 is not known/],
    [header.replace(',"plants":1', ''), /^Line 1: the number of plants is missing/],
    [header, /announces 1 plant, but 0 follow\./],
    [`${header}{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n`, /announces 1 plant, but 2 follow\./],
    [
      `${header.replace('"belongings":0', '"belongings":1')}{"id":1,"name":"a"}\n`,
      /announces 1 line of care and photos, but 0 follow\./,
    ],
    [`${header}{"object":"care","plant":1,"kind":"water"}\n{"id":1,"name":"a"}\n`, /^Line 3: the plants come before/],
    [`${header}{"object":"cat"}\n`, /^Line 2: the object is not known here/],
    [`${header}{"object":"event","plant":1,"kind":"water","at":{}}\n`, /^Line 2: "at" is neither a text nor a number/],
    [`${header}{"id":1,"name":"a","species":5}\n`, /^Line 2: "species" is not a text/],
    [`${header}{"id":1,"name":"a","version":0}\n`, /^Line 2: "version" is not a whole number/],
    [`${header}{"id":1,"na`, /^Line 2: a plant needs an id/],
    [`${header}null\n`, /^Line 2: a plant needs an id/],
    [`${header}{"name":"a"}\n`, /^Line 2: a plant needs an id/],
    [`${header}{"id":"1","name":"a"}\n`, /^Line 2: a plant needs an id/],
    [`${header}{"id":9007199254740993,"name":"a"}\n`, /^Line 2: a plant needs an id/],
    [`${header}{"id":1}\n`, /^Line 2: a plant needs a name/],
    [`${header}{"id":1,"name":"a","tag":5}\n`, /^Line 2: a plant needs a name, and its name and tag are texts/],
    [`${header}{"id":1,"name":" "}\n`, /^Line 2: The field "name" is blank/],
    [`${header}{"id":1,"name":"a","tag":"\\u0000b"}\n`, /^Line 2: The field "tag" has control characters/],
    [`${header}\n{"id":1,"name":"a"}\n`, /^Line 2: a plant needs an id/],
  ] as const)('refuses %j, and names the line', async ([text, sentence]) => {
    for (const length of [7, 100_000]) {
      await expect(plantsIn(text, length)).rejects.toThrow(AccessError)
      await expect(plantsIn(text, length)).rejects.toThrow(sentence)
    }
  })

  it('(f) refuses a line that is longer than a plant can be', async () => {
    const reading = plantsIn(header + 'x'.repeat(3_000_000), 1_000_000)
    await expect(reading).rejects.toThrow('Line 2: the line is longer than a plant can be.')
  })

  it('(f) refuses bytes that are not UTF-8, and names the line', async () => {
    const file = Buffer.from(fileOf(plants))
    file[file.lastIndexOf('c')] = 0xff
    async function* pieces() {
      yield file
    }
    const reading = async () => {
      for await (const _ of readAccountFile(pieces()));
    }
    await expect(reading()).rejects.toThrow('Line 4: the text is not UTF-8. Encode the file as UTF-8.')
  })
})

describe('accounts delete', () => {
  it('exports care, events and photos too, so that an import gives them back', async () => {
    const here = await startHere()
    await plantHard(here, 'ann')
    const ann = await idOf(here, 'ann')
    const insert = (text: string, ...values: Value[]) => here.stores.scripts.write(ann, () => query(text, ...values))
    await insert(
      `INSERT INTO care_rules (account, plant, kind, every_days, set_on) VALUES (${ann}, 1, 'water', 7, '2026-01-01')`,
    )
    await insert(`INSERT INTO care_logs (log, owner, account, plant) VALUES (5, ${ann}, ${ann}, 1)`)
    await insert("INSERT INTO care_events (log, id, at, kind) VALUES (5, 'a', 1764000000, 'water')")
    await insert(`INSERT INTO photos (id, owner, bytes, begun, account, plant) VALUES ('p', ${ann}, 3, 0, ${ann}, 1)`)
    await insert("INSERT INTO photo_pieces (photo, place, bytes) VALUES ('p', 0, $1)", Buffer.from([1, 2, 3]))
    await insert(`INSERT INTO plant_details (account, plant, photo_type, photo_bytes, photo_digest)
      VALUES (${ann}, 1, 'image/png', 3, 'sha256:x')`)
    await insert(`INSERT INTO kept_replies (account, key, request, reply, created) VALUES (${ann}, 'k', '', '', 0)`)
    const before = await here.run('accounts', 'export', 'ann')
    const deleted = await here.run('accounts', 'delete', 'ann')
    const path = /in (.*)\.\n$/.exec(deleted.stderr)?.[1] ?? ''
    expect(readFileSync(path, 'utf8')).toBe(before.stdout)
    expect(await here.run('accounts', 'import', 'bob', path)).toMatchObject({ code: 0 })
    const after = await here.run('accounts', 'export', 'bob')
    expect(after.stdout.replace('"bob"', '"ann"')).toBe(before.stdout)
    expect((await here.run('check')).code).toBe(0)
  })

  it('exports the plants, then deletes everything that the account owns, and nothing of other accounts', async () => {
    const service = await serviceForThisTest()
    const here = await startHere(service.dataDirectory)
    const name = 'Dora Ørsted @home'
    const key = await service.makeKey(name)
    const headers = { authorization: `Bearer ${key}` }
    await plantHard(here, name)
    await plantHard(here, 'bob')
    const once = { ...headers, 'idempotency-key': 'once' }
    await service.request('/plants', { json: { id: 77, name: 'once' }, headers: once })
    const card = { spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Moss', first_mes: 'Hi' } }
    expect((await service.request('/characters', { json: card, headers })).status).toBe(201)
    const sql = await sqlForThisTest(here.folder)
    const [dora, bob] = [await idOf(here, name), await idOf(here, 'bob')]
    await sql.insert('grants', [
      { owner: dora, grantee: bob, tag: '', created: 0 },
      { owner: bob, grantee: dora, tag: '', created: 0 },
    ])
    await putIntoLedger(sql, [{ account: dora, created: '2026-11-20T08:00:00Z' }])
    await sql.insert('spend', [{ subject: `account ${dora}`, day: '2026-11-20', tokens: 5 }])

    const ended = await here.run('accounts', 'delete', name)
    expect(ended).toMatchObject({ code: 0, stdout: '' })
    const [file, ...others] = readdirSync(join(here.folder, 'backups')).filter((each) => each.startsWith('account-'))
    expect(others).toEqual([])
    expect(file).toMatch(/^account-Dora__rsted_@home-20\d\d-[0-9TZ.-]+\.jsonl$/)
    const path = join(here.folder, 'backups', file ?? '')
    expect(ended.stderr).toBe(`The account ${JSON.stringify(name)} is deleted. Its plants are in ${path}.\n`)
    expect(statSync(path).mode & 0o077).toBe(0)
    const kept = [...plants.slice(0, 2), { id: 77, name: 'once' }, ...plants.slice(2)]
    expect(await plantsIn(readFileSync(path, 'utf8'))).toMatchObject(kept)

    await onceKnown(async () => expectError(await service.request('/plants', { headers }), 'plants', 401))
    const left = async (table: string, where: string) =>
      (await sql.run(`SELECT 1 AS row FROM ${table} WHERE ${where}`, dora)).length
    for (const table of ['plants', 'keys', 'characters', 'character_versions', 'idempotency_keys']) {
      expect([table, await left(table, 'account = ?')]).toEqual([table, 0])
    }
    expect([await left('grants', '? IN (owner, grantee)'), await left('accounts', 'id = ?')]).toEqual([0, 0])
    expect(await left('requests', 'account = ?')).toBe(1)
    expect(await sql.run("SELECT tokens FROM spend WHERE subject NOT LIKE 'changes:%'")).toEqual([{ tokens: 5 }])
    expect(await plantsOf(here, 'bob')).toStrictEqual(plants)

    // A new account of the same name gets nothing of the old account.
    const again = await service.makeKey(name)
    const list = await service.request('/plants', { headers: { authorization: `Bearer ${again}` } })
    expect(await list.json()).toEqual([])
    expect(await idOf(here, name)).not.toBe(dora)
    const empty = await here.run('accounts', 'delete', name)
    expect(empty.stderr).toBe(`The account ${JSON.stringify(name)} is deleted. It had no plants.\n`)
  })

  it('deletes nothing when the plants cannot be exported, and keeps no file when nothing is deleted', async () => {
    const here = await startHere()
    await plantHard(here, 'ann')
    const backups = join(here.folder, 'backups')
    writeFileSync(backups, 'no folder')
    expect((await here.run('accounts', 'delete', 'ann')).code).toBe(1)
    expect(await plantsOf(here, 'ann')).toHaveLength(3)

    const other = await startHere()
    await plantHard(other, 'ann')
    await other.stores.access.createKey({ account: 'ann', scopes: ['admin'] })
    const ended = await other.run('accounts', 'delete', 'ann')
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/^No working key with the scope admin/) })
    expect(await plantsOf(other, 'ann')).toHaveLength(3)
    expect(readdirSync(join(other.folder, 'backups'))).toEqual([])
    expect((await other.run('accounts', 'delete', 'nobody')).stderr).toMatch(/^There is no account "nobody"/)
  })
})
