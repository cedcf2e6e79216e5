import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { PlantsFile } from '../../src/plants/exporting.ts'
import type { PortablePlant } from '../../src/plants/rows.ts'
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
import { folderForThisTest } from '../support/preset-service.ts'

function startHere(): Promise<AccountsHere> {
  return accountsIn(folderForThisTest())
}

describe('accounts import, in batches', () => {
  async function fileIn(here: AccountsHere, list: readonly PortablePlant[]): Promise<string> {
    const file = join(here.folder, 'file.jsonl')
    writeFileSync(file, fileOf(list))
    return file
  }

  it('reports a file that is imported already, unless one of its plants is removed or changed', async () => {
    const here = await startHere()
    const file = await fileIn(here, plants)
    const run = () => here.run('accounts', 'import', 'bob', file)
    expect(await run()).toMatchObject({ code: 0 })
    const again = 'The file was imported before: the account "bob" has its 3 plants.\n'
    expect(await run()).toMatchObject({ code: 0, stdout: '', stderr: again })
    await here.stores.plants.remove(await idOf(here, 'bob'), -5)
    const taken = 'Line 3: there is a plant with the id 1 already. Nothing was imported.\n'
    expect(await run()).toMatchObject({ code: 1, stdout: '', stderr: taken })
    for (const { id } of plants.slice(1)) await here.stores.plants.remove(await idOf(here, 'bob'), id)
    expect(await run()).toMatchObject({ code: 0, stderr: 'The account "bob" now has 3 plants more.\n' })
    expect(await plantsOf(here, 'bob')).toStrictEqual(plants)
  })

  it('continues an interrupted import, and says how many plants were imported before', async () => {
    const here = await startHere()
    const file = await fileIn(here, plants)
    const digest = createHash('sha256').update(readFileSync(file)).digest('hex')
    const key = { account: await idOf(here, 'bob'), digest }
    await here.stores.transfers.beginImport(key, 3, plants[2])
    await here.stores.transfers.addPlants(key, 0, plants.slice(0, 2), false)
    const ended = await here.run('accounts', 'import', 'bob', file)
    const told = 'The account "bob" now has 3 plants more, 2 of them from an interrupted run of this command.\n'
    expect(ended).toMatchObject({ code: 0, stderr: told })
    expect(await plantsOf(here, 'bob')).toStrictEqual(plants)
  })

  it('stops at an id that a caller has taken during the import, and reports the line and what to do', async () => {
    const here = await startHere()
    const file = await fileIn(here, plants)
    const digest = createHash('sha256').update(readFileSync(file)).digest('hex')
    const key = { account: await idOf(here, 'bob'), digest }
    await here.stores.transfers.beginImport(key, 3, plants[2])
    await here.stores.transfers.addPlants(key, 0, plants.slice(0, 1), false)
    await here.stores.plants.create(key.account, { id: 1, name: 'mine' })
    const ended = await here.run('accounts', 'import', 'bob', file)
    const told =
      'Line 3: there is a plant with the id 1 already, added after the import began. The first 1 plants of the file are imported. Remove that plant and run this again, or undo the import with --undo.\n'
    expect(ended).toMatchObject({ code: 1, stdout: '', stderr: told })
    expect(await here.run('accounts', 'import', 'bob', file, '--undo')).toMatchObject({ code: 0 })
    expect(await plantsOf(here, 'bob')).toStrictEqual([{ id: 1, name: 'mine' }])
  })

  it('undoes an import with --undo: it removes the plants that the import added, and nothing else', async () => {
    const here = await startHere()
    const id = await idOf(here, 'bob')
    const mine = { id: 2, name: 'mine' }
    await here.stores.plants.create(id, mine)
    const list = [...plants.slice(0, 2), { id: 5, name: 'to be another' }, { id: 6, name: 'gone' }]
    const file = await fileIn(here, list)
    const undo = () => here.run('accounts', 'import', 'bob', file, '--undo')
    const none = 'This file is not imported into the account, so there is nothing to undo.\n'
    expect(await undo()).toMatchObject({ code: 1, stderr: none })
    expect(await here.run('accounts', 'import', 'bob', file)).toMatchObject({ code: 0 })
    for (const gone of [5, 6]) await here.stores.plants.remove(id, gone)
    const other = { id: 5, name: 'another' }
    await here.stores.plants.create(id, other)
    const next = (await here.stores.plants.create(id, { name: 'next' })).plant.id
    const told = 'The import is undone: the account "bob" now has 2 plants fewer.\n'
    expect(await undo()).toMatchObject({ code: 0, stdout: '', stderr: told })
    expect(await plantsOf(here, 'bob')).toStrictEqual([mine, other, { id: next, name: 'next' }])
    expect(await undo()).toMatchObject({ code: 1, stderr: none })
    expect(await here.run('accounts', 'import', 'ann', file)).toMatchObject({ code: 0 })
  })

  it('imports nothing while the same import is being undone', async () => {
    const here = await startHere()
    const file = await fileIn(here, plants)
    await here.run('accounts', 'import', 'bob', file)
    const digest = createHash('sha256').update(readFileSync(file)).digest('hex')
    await here.stores.transfers.beginUndo({ account: await idOf(here, 'bob'), digest }, 3)
    const told = 'This import is being undone. Finish the undo first, with the same command and --undo.\n'
    expect(await here.run('accounts', 'import', 'bob', file)).toMatchObject({ code: 1, stderr: told })
  })

  it('(f) imports all plants of a file with unsorted ids, and of a file with thousands of plants', async () => {
    const here = await startHere()
    const list = Array.from({ length: 5000 }, (_, index) => ({ id: (index * 7919) % 5003, name: `plant ${index}` }))
    const file = await fileIn(here, list)
    expect(await here.run('accounts', 'import', 'bob', file)).toMatchObject({ code: 0 })
    expect(await plantsOf(here, 'bob')).toStrictEqual(list.toSorted((one, other) => one.id - other.id))
  })

  it('(f) imports into a suspended account', async () => {
    const here = await startHere()
    await here.stores.access.suspendAccount('bob')
    expect(await here.run('accounts', 'import', 'bob', await fileIn(here, plants))).toMatchObject({ code: 0 })
    expect(await plantsOf(here, 'bob')).toStrictEqual(plants)
  })
})

describe('accounts delete, in batches', () => {
  it('suspends the account, and deletes only plants that a complete file has unchanged', async () => {
    const here = await startHere()
    await plantHard(here, 'ann')
    const id = await idOf(here, 'ann')
    // An interrupted run left a complete file, in which one plant has another name, and an incomplete file.
    const backups = join(here.folder, 'backups')
    mkdirSync(backups)
    const [whole, cut] = [join(backups, 'account-ann-1.jsonl'), join(backups, 'account-ann-2.jsonl')]
    writeFileSync(whole, fileOf([...plants.slice(0, 2), { id: 9007199254740991, name: 'was another' }]))
    writeFileSync(`${cut}.part`, 'cut')
    await here.stores.transfers.saveDeletionFile(id, { path: whole, isComplete: true })
    await here.stores.transfers.saveDeletionFile(id, { path: cut, isComplete: false })
    const ended = await here.run('accounts', 'delete', 'ann')
    expect(ended).toMatchObject({ code: 0, stdout: '' })
    const files = readdirSync(backups).map((name) => join(backups, name))
    const rest = files.find((path) => path !== whole) ?? ''
    expect(files.toSorted()).toEqual([whole, rest].toSorted())
    expect(ended.stderr).toBe(`The account "ann" is deleted. Its plants are in ${whole} and ${rest}.\n`)
    expect(await plantsIn(readFileSync(rest, 'utf8'))).toMatchObject(plants.slice(2))
  })

  it('reports a missing file of an earlier run, and continues', async () => {
    const here = await startHere()
    await plantHard(here, 'ann')
    const path = join(here.folder, 'backups', 'account-ann-1.jsonl')
    await here.stores.transfers.saveDeletionFile(await idOf(here, 'ann'), { path, isComplete: true })
    const ended = await here.run('accounts', 'delete', 'ann')
    expect(ended.code).toBe(0)
    expect(ended.stderr).toContain(`The file ${path} is missing. It may have had plants that are deleted already.\n`)
  })

  it('leaves the account suspended, and says so, when its plants cannot be written', async () => {
    const here = await startHere()
    await plantHard(here, 'ann')
    const copyPlants = vi.spyOn(PlantsFile.prototype, 'add').mockImplementation(() => {
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC', path: '/full' })
    })
    onTestFinished(() => copyPlants.mockRestore())
    const ended = await here.run('accounts', 'delete', 'ann')
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr).toBe(
      'The account "ann" is suspended, but not deleted. Run this again to continue, or undo the suspension: conservatory accounts resume\n/full cannot be written: its disk is full. Make room, and try again.\n',
    )
    expect(await plantsOf(here, 'ann')).toStrictEqual(plants)
    expect(readdirSync(join(here.folder, 'backups'))).toEqual([])
    copyPlants.mockRestore()
    expect(await here.run('accounts', 'delete', 'ann')).toMatchObject({ code: 0 })
  })
})
