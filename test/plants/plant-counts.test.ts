import { setImmediate } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { engines } from '../support/engines.ts'

/** An account in SQLite with 250,000 plants, which are counted in three slices. */
async function manyPlants() {
  const [sqlite] = engines
  const database = await sqlite?.openDatabase()
  if (!database) throw new Error('there is no engine')
  onTestFinished(() => database.close())
  const account = await database.newAccount()
  await database.run(`
    INSERT INTO plants (account, id, name)
    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ${count})
    SELECT ${account}, id, 'n' FROM ids`)
  return { database, account, plants: database.openPlants() }
}

const count = 250_000
const fern = { name: 'Fern' }

it('the first plant of a large account with a limit lets other requests run while the account is counted', async () => {
  const { plants, account } = await manyPlants()
  let turns = 0
  let isOver = false
  const others = (async () => {
    for (; !isOver; turns++) await setImmediate()
  })()
  await plants.create(account, fern, undefined, count + 1)
  isOver = true
  await others
  expect(turns).toBeGreaterThanOrEqual(2)
})

it('plants that are added or removed during a count are counted once, and the limit is exact', async () => {
  const { plants, account } = await manyPlants()
  const limited = plants.create(account, fern, undefined, count + 10)
  // One slice is counted by now. These ids are before its end, after its end, and after all plants.
  await setImmediate()
  await Promise.all([
    plants.remove(account, 5),
    plants.remove(account, count - 5),
    plants.create(account, { ...fern, id: 5 }),
    plants.create(account, { ...fern, id: count + 5 }),
  ])
  await limited
  // There are 250,001 plants now: two were removed and three were added. So nine more plants reach the limit.
  const added = await Promise.allSettled(
    Array.from({ length: 12 }, () => plants.create(account, fern, undefined, count + 10)),
  )
  expect(added.filter(({ status }) => status === 'fulfilled')).toHaveLength(9)
  expect(await plants.count(account)).toBe(count + 10)
})

it('plants of another process are counted for the next plant', async () => {
  const { database, plants, account } = await manyPlants()
  expect(await plants.count(account, 100)).toBe(100)
  await plants.create(account, fern, undefined, count + 2)
  await database.run(`INSERT INTO plants (account, id, name) VALUES (${account}, -1, 'n')`)
  await setImmediate()
  await expect(plants.create(account, fern, undefined, count + 2)).rejects.toMatchObject({ code: 'plants_limit' })
  await plants.remove(account, 1)
  expect((await plants.create(account, fern, undefined, count + 2)).plant.name).toBe('Fern')
})
