import { describe, expect, it, onTestFinished } from 'vitest'
import type { PortablePlant } from '../../src/plants/rows.ts'
import { exportedFrom, importInto } from '../support/account-files.ts'
import { type Engine, engines } from '../support/engines.ts'

/** Two accounts over an engine, and the store of transfers. */
async function startHere(engine: Engine) {
  const database = await engine.openDatabase()
  onTestFinished(() => database.close())
  const transfers = database.openTransfers()
  const [account, other] = [await database.newAccount(), await database.newAccount()]
  return {
    plants: database.openPlants(),
    transfers,
    account,
    other,
    held: (of = account) => exportedFrom(transfers, of),
  }
}

const key = (account: number) => ({ account, digest: 'd'.repeat(64) })
const fern: PortablePlant = { id: 7, name: 'Fern', tag: 'shade' }
const moss: PortablePlant = { id: 8, name: 'Moss' }
const ivy: PortablePlant = { id: 9, name: 'Ivy' }

describe.each(engines)('the transfers of $name', (engine) => {
  it('(f) import all plants of a file into the given account, or no plant', async () => {
    const { plants, transfers, account, other, held } = await startHere(engine)
    await importInto(transfers, account, [fern])
    const twice = importInto(transfers, account, [moss, { ...fern, name: 'other' }])
    await expect(twice).rejects.toThrow('Line 3: there is a plant with the id 7 already. Nothing was imported.')
    await expect(importInto(transfers, account + 100, [fern])).rejects.toMatchObject({ code: 'account_deleted' })
    expect([await held(), await held(other)]).toStrictEqual([[fern], []])
    // Imported plants count for the limit, and for the next id.
    await expect(plants.create(account, { name: 'Ivy' }, undefined, 1)).rejects.toMatchObject({ code: 'plants_limit' })
    expect((await plants.create(account, { name: 'Ivy' }, undefined, 2)).plant.id).toBe(8)
  })

  it('(f) give plants that are added during an import ids above those of the file', async () => {
    const { plants, transfers, account, held } = await startHere(engine)
    await transfers.beginImport(key(account), 3, ivy)
    expect((await plants.create(account, { name: 'Oak' })).plant.id).toBe(10)
    await transfers.addPlants(key(account), 0, [fern, moss], false)
    await transfers.addPlants(key(account), 2, [ivy], true)
    expect(await held()).toStrictEqual([fern, moss, ivy, { id: 10, name: 'Oak' }])
    expect(await transfers.findImport(key(account))).toEqual({ plants: 3, done: 3, highest: 9, isUndoing: false })
  })

  it('(f) add a batch and the record of the progress in one transaction, and each batch once', async () => {
    const { plants, transfers, account, held } = await startHere(engine)
    await transfers.beginImport(key(account), 3, ivy)
    await transfers.addPlants(key(account), 0, [fern], false)
    await expect(transfers.addPlants(key(account), 0, [fern], false)).rejects.toThrow(
      'Another command is working on this',
    )
    await plants.create(account, { ...moss, name: 'mine' })
    await expect(transfers.addPlants(key(account), 1, [moss, ivy], true)).rejects.toMatchObject({ id: 8 })
    expect(await transfers.findImport(key(account))).toMatchObject({ done: 1 })
    expect(await held()).toStrictEqual([fern, { ...moss, name: 'mine' }, ivy])
    await transfers.beginUndo(key(account), 3)
    await plants.remove(account, 8)
    await expect(transfers.addPlants(key(account), 1, [moss, ivy], true)).rejects.toThrow(
      'Another command is working on this',
    )
  })
})
