import { expect, it } from 'vitest'
import { compileCache } from '../support/command.ts'
import { disks } from '../support/full-disk.ts'
import { expectError } from '../support/http.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'

const key = 'a-key-for-a-full-disk'
const bearer = { authorization: `Bearer ${key}` }

const get = ({ url }: SpawnedService, path: string): Promise<Response> => fetch(url + path, { headers: bearer })

const post = ({ url }: SpawnedService, path: string, body: unknown): Promise<Response> =>
  fetch(url + path, {
    method: 'POST',
    headers: { ...bearer, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

it.each(disks)(
  'with %s writes get a 507 and reads go on; once there is space, writes succeed again',
  async (_what, start) => {
    const { service, fill, makeRoom } = await start({ BOOTSTRAP_KEY: key })
    const acknowledged: string[] = []
    /** Adds plants until one is refused. The first plants may be written, since SQLite overwrites old parts of its log. */
    const addUntilRefused = async (round: string): Promise<Response> => {
      for (let count = 0; count < 5000; count++) {
        const name = `${round} ${count} ${'x'.repeat(200)}`
        const answer = await post(service, '/plants', { name, tag: 'y'.repeat(200) })
        if (answer.status !== 200) return answer
        acknowledged.push(name)
      }
      throw new Error('the disk is not full')
    }
    const names = async (path: string): Promise<readonly string[]> => {
      const plants: readonly { name: string }[] = JSON.parse(await (await get(service, path)).text())
      return plants.map(({ name }) => name)
    }
    expect((await post(service, '/plants', { name: 'First' })).status).toBe(200)
    acknowledged.push('First')

    for (const round of ['one', 'two']) {
      fill()
      const { message } = await expectError(await addUntilRefused(round), 'plants', 507)
      expect(message).toBe('The disk is full, so nothing was written. Tell the operator; reading goes on.')
      const large = { spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Ivy', description: 'z'.repeat(1e6) } }
      expect(await expectError(await post(service, '/characters', large), 'chat', 507)).toMatchObject({
        code: 'disk_full',
      })
      // Readiness, a page of plants, the list of all plants and chats are not affected.
      expect((await get(service, '/readyz')).status).toBe(200)
      expect(await names('/plants?limit=1')).toEqual(['First'])
      expect(await names('/plants')).toEqual(acknowledged)
      const messages = [{ role: 'user', content: 'Why are my leaves turning yellow?' }]
      const said = await post(service, '/chat/completions', { model: 'understudy', character: 'Fern', messages })
      expect(said.status).toBe(200)
      makeRoom()
      expect((await post(service, '/plants', { name: `after ${round}` })).status).toBe(200)
      acknowledged.push(`after ${round}`)
      expect((await post(service, '/characters', { ...large, data: { name: round } })).status).toBe(201)
      expect(await names('/plants')).toEqual(acknowledged)
    }

    // When the service stops, it writes the compile cache, and checkpoints the log. It must also stop on a full disk.
    fill()
    service.process.kill('SIGTERM')
    expect(await service.exited).toBe(0)
    expect(service.stdout()).toContain('disk_full')
  },
  60_000,
)

it('without disk space for the log the service keeps running, and stops as usual', async () => {
  const service = await spawnService('sh', ['-c', 'exec "$0" src/main.ts > /dev/full', process.execPath], {
    environment: { ...compileCache, BOOTSTRAP_KEY: key },
  })
  for (let count = 0; count < 200; count++) expect((await get(service, '/plants')).status).toBe(200)
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect((await post(service, '/plants', { name: 'Moss' })).status).toBe(200)
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(0)
})
