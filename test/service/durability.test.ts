import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { conservatory } from '../support/command.ts'
import { integrityOf, killRounds } from '../support/kill-rounds.ts'
import { often } from '../support/often.ts'
import { add, folderForThisTest, preset, start } from '../support/preset-service.ts'
import { serviceForThisTest } from '../support/service.ts'
import { isOverPostgres } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

// The trial `often` and the benchmark `npm run bench -- durability` do the same more often.
it('each acknowledged plant is there exactly once after each kill -9', async () => {
  const folder = folderForThisTest()
  const result = await killRounds({
    rounds: often(2),
    writers: 64,
    key: preset,
    start: async () => {
      const service = await start(folder)
      const kill = async () => {
        service.process.kill('SIGKILL')
        await service.exited
      }
      return { url: service.url, kill }
    },
  })
  expect(result).toMatchObject({ lost: [], doubled: [] })
  if (!isOverPostgres) expect(integrityOf(folder)).toBe('ok')
  expect(result.acknowledged).toBeGreaterThan(100)
  expect(result.sentAgain).toBeGreaterThan(10)
}, 120_000)

it('commands work while clients write to the service, and the service sees their changes', async () => {
  const folder = folderForThisTest()
  const service = await start(folder)
  let isWriting = true
  const writing = (async () => {
    for (let count = 0; isWriting; count++) expect((await add(service.url, `During ${count}`)).status).toBe(200)
  })()
  const card = join(folder, 'card.json')
  writeFileSync(card, JSON.stringify({ spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Beside' } }))
  const commands = [
    ['accounts', 'create', 'beside'],
    ['accounts', 'list', '--json'],
    ['keys', 'create', '--account', 'owner', '--scopes', 'plants:read,chat'],
    ['keys', 'list'],
    ['characters', 'import', card, '--account', 'owner'],
    ['characters', 'list'],
    ['models', 'check'],
    // PostgreSQL has its own backups.
    ...(isOverPostgres ? [] : [['backup', join(folder, 'beside.db')]]),
  ]
  const ended = await Promise.all(commands.map((command) => conservatory(command, { DATA_DIR: folder })))
  isWriting = false
  await writing
  const told = ended.map(({ code, stderr }, index) => [commands[index]?.join(' '), code, code === 0 ? '' : stderr])
  expect(told).toEqual(commands.map((command) => [command.join(' '), 0, '']))
  const headers = { authorization: `Bearer ${ended[2]?.stdout.trim()}` }
  expect((await fetch(`${service.url}/plants`, { headers })).status).toBe(200)
  expect(await (await fetch(`${service.url}/characters`, { headers })).text()).toContain('"Beside"')
})

it('the same request gets the same page until another program writes to the database', async () => {
  const service = await serviceForThisTest()
  await service.request('/plants', { json: { name: 'Moss' } })
  const first = await (await service.request('/plants?limit=5')).text()
  expect(await (await service.request('/plants?limit=5')).text()).toBe(first)
  const sql = await sqlForThisTest(service.dataDirectory)
  await sql.run("INSERT INTO plants (account, id, name) SELECT min(id), 77, 'From outside' FROM accounts")
  expect(await (await service.request('/plants?limit=5')).text()).toContain('From outside')
})
