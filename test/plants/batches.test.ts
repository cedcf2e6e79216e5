import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it, onTestFinished } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { openSqliteStores } from '../../src/storage/stores.ts'
import { temporaryFolder } from '../support/service.ts'

const write = fc.oneof(
  fc.record({ what: fc.constant('add' as const), id: fc.option(fc.integer({ min: -2, max: 12 }), { nil: undefined }) }),
  fc.record({ what: fc.constant('remove' as const), id: fc.integer({ min: -2, max: 12 }) }),
)

it('writes that share a transaction answer as they would one after the other', async () => {
  const folder = temporaryFolder()
  const stores = openSqliteStores(join(folder.path, 'conservatory.db'))
  onTestFinished(async () => {
    await stores.close()
    folder.remove()
  })
  let accounts = 0
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(write, { maxLength: 8 }), { maxLength: 5 }), async (batches) => {
      const { id: account } = await stores.access.createAccount(`account ${++accounts}`)
      const there = new Set<number>()
      for (const batch of batches) {
        const found = await Promise.all(
          batch.map(async ({ what, id }) => {
            if (what === 'remove') return stores.plants.remove(account, id)
            const added = stores.plants.create(account, { name: 'Fern', ...(id === undefined ? {} : { id }) })
            return added.then(
              ({ plant }) => plant.id,
              (error: unknown) => (error instanceof ApiError ? error.status : error),
            )
          }),
        )
        const expected = batch.map(({ what, id }) => {
          if (what === 'remove') return there.delete(id)
          const given = id ?? Math.max(0, ...there) + 1
          if (there.has(given)) return 409
          there.add(given)
          return given
        })
        expect(found).toStrictEqual(expected)
      }
    }),
    { numRuns: 200 },
  )
})
