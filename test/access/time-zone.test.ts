import { expect, it } from 'vitest'
import { conservatory } from '../support/command.ts'
import { serviceForThisTest } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'

it('an account gets a time zone in the spelling of the database, and UTC again', async () => {
  const { dataDirectory } = await serviceForThisTest()
  const run = (...args: readonly string[]) => conservatory(args, { DATA_DIR: dataDirectory })
  const { access } = await storesForThisTest(dataDirectory)
  await access.createAccount('ann')
  const set = async (zone: string) => {
    const { code, stdout, stderr } = await run('accounts', 'set', 'ann', '--time-zone', zone)
    const account = (await access.listAccounts()).find(({ name }) => name === 'ann')
    return [code, stdout, stderr, account?.timeZone]
  }
  const says = (zone: string) => `The time zone of the account "ann" is now: ${zone}.\n`
  expect(await set('europe/berlin')).toEqual([0, '', says('Europe/Berlin'), 'Europe/Berlin'])
  expect((await run('accounts', 'list')).stdout).toMatch(/^ann {4}- {7}Europe\/Berlin /m)
  await access.limitAccount('ann', { plants: 5 })
  expect((await access.listAccounts()).find(({ name }) => name === 'ann')?.timeZone).toBe('Europe/Berlin')
  expect(await set('utc')).toEqual([0, '', says('UTC'), null])
  expect(await set('Pacific/Auckland')).toEqual([0, '', says('Pacific/Auckland'), 'Pacific/Auckland'])
  expect(await set('')).toEqual([0, '', says('UTC'), null])
  expect(await run('accounts', 'set', 'bob', '--time-zone', 'UTC')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no account "bob". See: conservatory accounts list'),
  })
})

it('due dates follow the time zone of their account, in the running service', async () => {
  const service = await serviceForThisTest()
  const headers = { authorization: `Bearer ${await service.makeKey('ann')}` }
  const ask = async (method: string, path: string, json?: unknown) => {
    const response = await service.request(path, { method, headers, ...(json === undefined ? {} : { json }) })
    expect(response.ok, path).toBe(true)
    return JSON.parse(await response.text())
  }
  const lastSecond = Date.parse('2026-03-01T23:30:00Z') / 1000
  const plants = Array.from({ length: 5 }, (_, index) => index + 1)
  for (const id of plants) {
    await ask('POST', '/plants', { name: 'Fern', id })
    await ask('PUT', `/plants/${id}/care/water`, { every_days: 7 })
    await ask('POST', `/plants/${id}/events`, { kind: 'water', at: lastSecond })
  }
  const due = async () => {
    const { data }: { data: { due: string }[] } = await ask('GET', '/care/due')
    return new Set(data.map((each) => each.due))
  }
  expect(await due()).toEqual(new Set(['2026-03-08']))
  const { dataDirectory } = service
  await conservatory(['accounts', 'set', 'ann', '--time-zone', 'Europe/Berlin'], { DATA_DIR: dataDirectory })
  expect(await due()).toEqual(new Set(['2026-03-09']))
  await conservatory(['accounts', 'set', 'ann', '--time-zone', 'UTC'], { DATA_DIR: dataDirectory })
  expect(await due()).toEqual(new Set(['2026-03-08']))
})
