import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { digestOf } from '../../src/bytes.ts'
import { headerLine } from '../../src/plants/account-file.ts'
import { importFile, undoImport } from '../../src/plants/importing.ts'
import { InputFile } from '../../src/plants/input-file.ts'
import { Photos } from '../../src/plants/photos.ts'
import type { PlantStore } from '../../src/plants/plant.ts'
import type { PlantTransfers } from '../../src/plants/transfers.ts'
import { query, type Scripts } from '../../src/storage/scripts.ts'
import { engines, type TestDatabase } from '../support/engines.ts'
import { temporaryFolder } from '../support/service.ts'

describe.each(engines)('the file of an account over $name', (engine) => {
  let database: TestDatabase
  let plants: PlantStore
  let transfers: PlantTransfers
  let scripts: Scripts
  let photos: Photos
  let [from, to] = [0, 0]
  const folder = temporaryFolder

  beforeEach(async () => {
    database = await engine.openDatabase()
    onTestFinished(() => database.close())
    ;[plants, transfers, scripts] = [database.openPlants(), database.openTransfers(), database.openScripts()]
    photos = new Photos(plants, scripts)
    ;[from, to] = [await database.newAccount(), await database.newAccount()]
  })

  const picture = Buffer.alloc(600_000, 'photo')
  const facts = { type: 'image/png', bytes: picture.length, digest: `sha256:${digestOf(picture)}` } as const

  /** Fills the account `from` with plants, details, rules, events and a photo. */
  async function fill(): Promise<void> {
    await plants.createMany({
      account: from,
      faultAt: (_index, error) => error,
      plants: [
        { name: 'Bare', id: -3 },
        {
          name: 'Full',
          id: 7,
          tag: 'aroid',
          species: 'Monstera deliciosa',
          place: 'Window',
          light: 'bright',
          acquired: '2024-02-29',
          notes: 'Two\r\nlines',
          archived: true,
        },
      ],
    })
    await photos.put(from, 7, { facts, picture })
    await database.run(`
      INSERT INTO care_rules (account, plant, kind, every_days, season_from, season_to, season_days, set_on, last, not_before, due)
        VALUES (${from}, 7, 'water', 7, '11-01', '02-28', NULL, '2026-01-01', 1764000000, NULL, '2026-11-29'),
          (${from}, -3, 'mist', 1, NULL, NULL, NULL, '2026-01-02', NULL, '2026-12-01', '2026-12-01');
      INSERT INTO care_logs (log, owner, account, plant) VALUES (41, ${from}, ${from}, 7), (42, ${from}, ${from}, -3);
      INSERT INTO care_events (log, id, at, kind, note, value, unit)
        VALUES (41, 'a', 1764000000, 'water', 'with "rain"', NULL, NULL), (41, 'b', 1764000001, 'moisture', NULL, 41.5, '%'),
          (42, 'a', 1764000002, 'mist', NULL, NULL, NULL);
      INSERT INTO holdings (account, events) VALUES (${from}, 3) ON CONFLICT (account) DO UPDATE SET events = 3;`)
  }

  async function exported(account: number): Promise<string> {
    let text = ''
    const add = (lines: string) => {
      text += lines
    }
    await transfers.exportPlants(account, { begin: (...counts) => add(headerLine('ann', ...counts)), add, end() {} })
    return text
  }

  async function fileOf(text: string): Promise<InputFile> {
    const { path, remove } = folder()
    writeFileSync(join(path, 'file.jsonl'), text)
    const file = await InputFile.open(join(path, 'file.jsonl'), path)
    onTestFinished(async () => {
      await file.close()
      remove()
    })
    return file
  }

  const owner = (id: number) => ({
    id,
    name: `account ${id}`,
    created: 0,
    suspended: null,
    limits: {},
    models: null,
    timeZone: null,
  })
  const holdings = (account: number) =>
    scripts.read(() => query('SELECT events, photo_bytes FROM holdings WHERE account = $1', account))

  it('has details, rules, events and photos, which an import reads back, also after an interruption at any line', async () => {
    await fill()
    const text = await exported(from)
    const kinds = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).object)
    const photo = ['photo', 'photo', 'photo']
    expect(kinds).toEqual(['account', undefined, undefined, 'care', 'care', 'event', 'event', 'event', ...photo])
    const file = await fileOf(text)
    const add = transfers.addBelongings.bind(transfers)
    for (let left = 0; ; left++) {
      let calls = 0
      transfers.addBelongings = async (...lines) => {
        if (calls++ > left) throw new Error('killed')
        await add(...lines)
      }
      const ended = await importFile(transfers, owner(to), file).catch((error: unknown) => error)
      if (!(ended instanceof Error)) break
      expect(ended.message).toBe('killed')
      await expect(photos.find(to, 7)).rejects.toMatchObject({ status: 404 })
    }
    expect(await exported(to)).toBe(text)
    expect(await holdings(to)).toEqual([{ events: 3, photo_bytes: picture.length }])
    expect(await holdings(to)).toEqual(await holdings(from))
    expect(await photos.read(await photos.find(to, 7))).toEqual(picture)
    expect(await importFile(transfers, owner(to), file)).toEqual({ plants: 2, before: 2 })
    expect(await exported(to)).toBe(text)
  })

  it('is undone only for plants that have not changed since', async () => {
    await fill()
    const file = await fileOf(await exported(from))
    await importFile(transfers, owner(to), file)
    await plants.change(to, () =>
      query('UPDATE plants SET version = version + 1 WHERE account = $1 AND id = $2', to, -3),
    )
    expect(await undoImport(transfers, owner(to), file)).toBe(1)
    const { json } = await plants.list(to, { withIds: true }, 10)
    expect(JSON.parse(json)).toEqual([{ id: -3, name: 'Bare' }])
  })

  it('with care of a plant that is not in it is refused', async () => {
    const event = '{"object":"event","plant":9,"kind":"water","id":"a","at":1}\n'
    const file = await fileOf(`${headerLine('ann', 1, 1)}{"id":1,"name":"Fern"}\n${event}`)
    await expect(importFile(transfers, owner(to), file)).rejects.toThrow('of the plant 9, which is not there')
  })

  it('of the version before is read: its plants have no details', async () => {
    const file = await fileOf(
      `${headerLine('ann', 1).replace('"version":2', '"version":1')}{"id":1,"name":"Fern","tag":"shade"}\n`,
    )
    expect(await importFile(transfers, owner(to), file)).toEqual({ plants: 1, before: 0 })
    const { json } = await plants.list(to, { withIds: true }, 10)
    expect(JSON.parse(json)).toEqual([{ id: 1, name: 'Fern', tag: 'shade' }])
  })
})
