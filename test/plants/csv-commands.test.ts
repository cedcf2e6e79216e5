import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CsvSource } from '../../src/plants/csv-source.ts'
import { importFile } from '../../src/plants/importing.ts'
import { InputFile } from '../../src/plants/input-file.ts'
import { type AccountsHere, accountsIn, idOf, plantsOf } from '../support/account-files.ts'
import { temporaryFolder } from '../support/service.ts'

async function startHere(): Promise<AccountsHere & { write(text: string): string }> {
  const folder = temporaryFolder()
  onTestFinished(() => folder.remove())
  const here = await accountsIn(folder.path)
  const write = (text: string) => {
    const path = join(folder.path, 'plants.csv')
    writeFileSync(path, text)
    return path
  }
  return { ...here, write }
}

const header = 'id,name,tag,species,place,light,acquired,notes,archived\r\n'

describe('plants export and import', () => {
  it('give plants back as they were, in another account', async () => {
    const here = await startHere()
    const rows = `-5,'=1+1,''@x,,"a, b",,2024-02-29,"two\r\nlines",true\r\n7,Fern,,,,,,,\r\n`
    const file = here.write(header + rows)
    const imported = await here.run('plants', 'import', 'ann', file)
    expect(imported).toMatchObject({ code: 0, stdout: '', stderr: 'The account "ann" now has 2 plants more.\n' })
    const exported = await here.run('plants', 'export', 'ann')
    expect(exported).toMatchObject({ code: 0, stderr: '', stdout: header + rows })
    const records = await here.stores.audit.list({ accountId: await idOf(here, 'ann'), limit: 10 })
    expect(records.map(({ action }) => action)).toEqual(['account.created', 'account.imported', 'account.exported'])
    const again = await here.run('plants', 'import', 'ann', file)
    expect(again.stderr).toBe('The file was imported before: the account "ann" has its 2 plants.\n')
  })

  it('give plants without an id the ids above all others, and undo removes them', async () => {
    const here = await startHere()
    await here.stores.plants.create(await idOf(here, 'ann'), { name: 'There', id: 50 })
    const file = here.write('colour,id,name\ngreen,,Fern\nred,9,Ivy\n,,Moss\n')
    const imported = await here.run('plants', 'import', 'ann', file)
    expect(imported.stderr).toBe('Ignored columns: "colour".\nThe account "ann" now has 3 plants more.\n')
    const all = [
      { id: 9, name: 'Ivy' },
      { id: 50, name: 'There' },
      { id: 51, name: 'Fern' },
      { id: 52, name: 'Moss' },
    ]
    expect(await plantsOf(here, 'ann')).toEqual(all)
    const undone = await here.run('plants', 'import', 'ann', file, '--undo')
    expect(undone.stderr).toContain('The import is undone: the account "ann" now has 3 plants fewer.')
    expect(await plantsOf(here, 'ann')).toEqual([{ id: 50, name: 'There' }])
  })

  it('continue an import that was interrupted, with the same ids', async () => {
    const here = await startHere()
    const { transfers, access, plants } = here.stores
    const rows = Array.from({ length: 700 }, (_, index) => `Fern ${index}`)
    const path = here.write(`name\n${rows.join('\n')}\n`)
    const ann = (await access.listAccounts()).find(({ name }) => name === 'ann')
    if (!ann) throw new Error('no account')
    const run = async () => {
      const file = await InputFile.open(path, here.folder)
      try {
        return await importFile(transfers, ann, await CsvSource.open(file, transfers, ann.id))
      } finally {
        await file.close()
      }
    }
    const add = transfers.addPlants.bind(transfers)
    let batches = 0
    transfers.addPlants = async (...batch) => {
      if (batches++ > 0) throw new Error('killed')
      await add(...batch)
    }
    await expect(run()).rejects.toThrow('killed')
    expect((await plants.create(ann.id, { name: 'Between' })).plant.id).toBe(701)
    transfers.addPlants = add
    const { plants: count, before } = await run()
    expect([count, before > 0 && before < 700]).toEqual([700, true])
    const expected = rows.map((name, index) => ({ id: index + 1, name }))
    expect(await plantsOf(here, 'ann')).toEqual([...expected, { id: 701, name: 'Between' }])
  })

  it.each([
    ['', 'Line 1: the file is empty'],
    ['id,tag\n1,x\n', 'Line 1: the header has no column "name"'],
    ['id,name\n1,a\n1,b\n', 'Row 3: there is a plant with the id 1 already, on row 2. Nothing was imported.'],
    ['id,name\n50,a\n', 'Row 2: there is a plant with the id 50 already. Nothing was imported.'],
    ['name,acquired\nFern,1.4.2026\n', 'Line 2: The field "acquired"'],
    ['id,name\n9007199254740991,a\n,b\n', 'fewer free ids'],
  ])('refuse the file %j, and write nothing', async (text, sentence) => {
    const here = await startHere()
    await here.stores.plants.create(await idOf(here, 'ann'), { name: 'There', id: 50 })
    const ended = await here.run('plants', 'import', 'ann', here.write(text))
    expect([ended.code, ended.stdout]).toEqual([1, ''])
    expect(ended.stderr).toContain(sentence)
    expect(await plantsOf(here, 'ann')).toEqual([{ id: 50, name: 'There' }])
  })
})
