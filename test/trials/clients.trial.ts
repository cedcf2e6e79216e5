import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openApiFile } from '../../openapi/write.ts'
import { compileCache } from '../support/command.ts'
import { png } from '../support/containers.ts'
import { installPackages } from '../support/installed-packages.ts'
import { startTestService, type TestService } from '../support/service.ts'

/*
 * Two common generators make typed clients from openapi/conservatory.json: openapi-typescript (used with openapi-fetch) and
 * @hey-api/openapi-ts. A program for each keeps plants, without a cast. The generators need a compiler of their own, the version 5
 * of TypeScript, so they are installed from npm into a temporary folder. Needs the npm registry.
 */

const packages = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0', '@hey-api/openapi-ts@0.99.0', 'typescript@5.9.3']

const tsconfig = {
  compilerOptions: {
    strict: true,
    noUncheckedIndexedAccess: true,
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2022', 'dom', 'dom.iterable'],
    types: [],
    outDir: 'out',
  },
  files: ['fetch.ts', 'hey.ts'],
}

const beginning = `
declare const process: { readonly env: Readonly<Record<string, string | undefined>> }
const { URL_OF_SERVICE: baseUrl = '', KEY: key = '', PHOTO: photo = '' } = process.env
const print = (...values: readonly unknown[]) => console.log(JSON.stringify(values).slice(1, -1))
/** What a call gave, without the errors of its type. */
function done<T>({ data, error }: { data?: T; error?: { message: string } }): NonNullable<T> {
  if (data === undefined || data === null) throw new Error(error?.message)
  return data
}
`

const openapiFetch = `${beginning}
import createClient from 'openapi-fetch'
import type { components, paths } from './types.js'

const { GET, POST, PATCH, PUT, DELETE } = createClient<paths, 'application/json'>({
  baseUrl,
  headers: { Authorization: 'Bearer ' + key },
  querySerializer: { array: { style: 'form', explode: false } },
})

async function main() {
  const query = { include: ['id', 'details'] } satisfies { include: ('id' | 'details')[] }
  // openapi-fetch finds fields of a wrong type or that are missing, and the type of the body those that do not exist.
  const body: components['schemas']['NewPlant'] = { name: 'Monstera', tag: 'aroid', species: 'Monstera deliciosa', place: 'Kitchen', acquired: '2026-04-01' }
  const added = done(await POST('/plants', { params: { query, header: { 'Idempotency-Key': 'once' } }, body }))
  const id = added.id ?? 0
  print(id, added.species, added.acquired)

  const path = { id }
  const { response } = await GET('/plants/{id}', { params: { path } })
  const match = { 'If-Match': response.headers.get('etag') ?? '' }
  const change = { place: null, light: 'bright', archived: true }
  const changed = done(await PATCH('/plants/{id}', { params: { path, query, header: match }, body: change }))
  print(changed.place, changed.light, changed.archived)
  const late = await PATCH('/plants/{id}', { params: { path, header: match }, body: { name: 'Late' } })
  print(late.response.status, late.error?.message)

  const batch = done(await POST('/plants/batch', { params: { query }, body: [{ name: 'Fern', tag: 'shade' }, { name: 'Iris' }] }))
  print(batch.map((plant) => [plant.id, plant.name]))
  const found = done(await GET('/plants', { params: { query: { q: 'r', sort: '-name', archived: 'false', include: ['id', 'due'] } } }))
  print(found.map(({ name, due }) => [name, due?.length]))

  const water = { path: { id, kind: 'water' } }
  const season = { from: '11-01', to: '02-28', every_days: null }
  const care = done(await PUT('/plants/{id}/care/{kind}', { params: water, body: { every_days: 7, season } }))
  print(care.every_days, care.season?.every_days, care.last)
  const fern = { path: { id: batch[0]?.id ?? 0, kind: 'mist' } }
  done(await PUT('/plants/{id}/care/{kind}', { params: fern, body: { every_days: 3 } }))
  const due = done(await GET('/care/due', { params: { query: { within: '366d', limit: 5 } } }))
  print(due.data.map(({ plant, kind, overdue_days }) => [plant, kind, overdue_days]), due.has_more)

  const event = done(await POST('/plants/{id}/events', { params: { path }, body: { kind: 'moisture', value: 41.5, unit: '%' } }))
  print(event.kind, event.value, event.plant === id)
  const logged = done(await POST('/events', { body: { tag: 'shade', kind: 'mist' } }))
  print(logged.data.map(({ plant, kind }) => [plant, kind]))
  const log = done(await GET('/plants/{id}/events', { params: { path, query: { kind: 'moisture', from: '2026-01-01' } } }))
  print(log.data.map(({ unit }) => unit))

  const picture = new Blob([Uint8Array.from(atob(photo), (each) => each.charCodeAt(0))])
  const facts = done(await PUT('/plants/{id}/photo', { params: { path }, body: picture, bodySerializer: (sent) => sent }))
  const { data: shown } = await GET('/plants/{id}/photo', { params: { path }, parseAs: 'blob' })
  print(facts.type, shown?.size === facts.bytes)
  const csv = done(await GET('/plants', { params: { query: { format: 'csv' } }, parseAs: 'text' }))
  print(csv.split('\\r\\n').length)
  const imported = await POST('/plants/import', {
    params: { query: { dry_run: 'true' } },
    body: 'name\\nMoss\\n',
    bodySerializer: (sent) => sent,
    headers: { 'Content-Type': 'text/csv' },
  })
  print(done(imported).plants, done(imported).dry_run)
  print((await DELETE('/plants/{id}', { params: { path } })).response.status)

  /** Compiled, and never called. */
  const wrong = async () => {
    // @ts-expect-error a field that does not exist
    const misspelt: components['schemas']['NewPlant'] = { name: 'Fern', specie: 'x' }
    print(misspelt)
    // @ts-expect-error a name is a text
    await POST('/plants', { body: { name: 5 } })
    // @ts-expect-error a plant needs a name
    await POST('/plants', { body: { tag: 'aroid' } })
    // @ts-expect-error a name cannot be removed
    await PATCH('/plants/{id}', { params: { path }, body: { name: null } })
    // @ts-expect-error an id is a number
    await GET('/plants/{id}', { params: { path: { id: 'one' } } })
    // @ts-expect-error an order that does not exist
    await GET('/plants', { params: { query: { sort: 'tag' } } })
    // @ts-expect-error plants include no such thing
    await GET('/plants', { params: { query: { include: ['photo'] } } })
    // @ts-expect-error the days of an interval are a number
    await PUT('/plants/{id}/care/{kind}', { params: water, body: { every_days: '7' } })
    // @ts-expect-error a season has an end
    await PUT('/plants/{id}/care/{kind}', { params: water, body: { every_days: 7, season: { from: '11-01', every_days: 7 } } })
    // @ts-expect-error an event has a kind
    await POST('/plants/{id}/events', { params: { path }, body: { note: 'New leaf' } })
    // @ts-expect-error a measured value is a number
    await POST('/plants/{id}/events', { params: { path }, body: { kind: 'moisture', value: '41.5' } })
    // @ts-expect-error many events have a plant each
    await POST('/events', { body: [{ kind: 'water' }] })
    // @ts-expect-error replies have no such field
    added.nickname
    // @ts-expect-error a plant need not have a place
    added.place.length
    // @ts-expect-error a plant of others has no id here
    due.data.map(({ plant }) => plant + 1)
    // @ts-expect-error without an event there is no last time
    care.last + 1
  }
  void wrong
}
void main()
`

const heyApi = `${beginning}
import * as plants from './client/index.js'
import { client } from './client/client.gen.js'

client.setConfig({ baseUrl, auth: key })

async function main() {
  const query = { include: ['id', 'details'] } satisfies { include: ('id' | 'details')[] }
  const body = { name: 'Monstera', tag: 'aroid', species: 'Monstera deliciosa', place: 'Kitchen', acquired: '2026-04-01' }
  const added = done(await plants.addPlant({ query, headers: { 'Idempotency-Key': 'once' }, body }))
  const id = added.id ?? 0
  print(id, added.species, added.acquired)

  const path = { id }
  const { response } = await plants.getPlant({ path })
  const headers = { 'If-Match': response?.headers.get('etag') ?? '' }
  const changed = done(await plants.changePlant({ path, query, headers, body: { place: null, light: 'bright', archived: true } }))
  print(changed.place, changed.light, changed.archived)
  const late = await plants.changePlant({ path, headers, body: { name: 'Late' } })
  print(late.response?.status, late.error?.message)

  const batch = done(await plants.addPlants({ query, body: [{ name: 'Fern', tag: 'shade' }, { name: 'Iris' }] }))
  print(batch.map((plant) => [plant.id, plant.name]))
  const found = done(await plants.listPlants({ query: { q: 'r', sort: '-name', archived: 'false', include: ['id', 'due'] } }))
  print(found.map(({ name, due }) => [name, due?.length]))

  const water = { id, kind: 'water' }
  const season = { from: '11-01', to: '02-28', every_days: null }
  const care = done(await plants.putCare({ path: water, body: { every_days: 7, season } }))
  print(care.every_days, care.season?.every_days, care.last)
  done(await plants.putCare({ path: { id: batch[0]?.id ?? 0, kind: 'mist' }, body: { every_days: 3 } }))
  const due = done(await plants.listDue({ query: { within: '366d', limit: 5 } }))
  print(due.data.map(({ plant, kind, overdue_days }) => [plant, kind, overdue_days]), due.has_more)

  const event = done(await plants.addEvent({ path, body: { kind: 'moisture', value: 41.5, unit: '%' } }))
  print(event.kind, event.value, event.plant === id)
  const logged = done(await plants.addEvents({ body: { tag: 'shade', kind: 'mist' } }))
  print(logged.data.map(({ plant, kind }) => [plant, kind]))
  const log = done(await plants.listEvents({ path, query: { kind: 'moisture', from: '2026-01-01' } }))
  print(log.data.map(({ unit }) => unit))

  const picture = new Blob([Uint8Array.from(atob(photo), (each) => each.charCodeAt(0))])
  const facts = done(await plants.putPhoto({ path, body: picture, bodySerializer: null }))
  const { data: shown } = await plants.getPhoto({ path, parseAs: 'blob' })
  print(facts.type, shown instanceof Blob && shown.size === facts.bytes)
  const { data: csv } = await plants.listPlants({ query: { format: 'csv' }, parseAs: 'text' })
  print(String(csv).split('\\r\\n').length)
  const imported = done(await plants.importPlants({ query: { dry_run: 'true' }, body: 'name\\nMoss\\n' }))
  print(imported.plants, imported.dry_run)
  print((await plants.deletePlant({ path })).response?.status)

  /** Compiled, and never called. */
  const wrong = async () => {
    // @ts-expect-error a field that does not exist
    await plants.addPlant({ body: { name: 'Fern', specie: 'x' } })
    // @ts-expect-error a name is a text
    await plants.addPlant({ body: { name: 5 } })
    // @ts-expect-error a plant needs a name
    await plants.addPlant({ body: { tag: 'aroid' } })
    // @ts-expect-error a name cannot be removed
    await plants.changePlant({ path, body: { name: null } })
    // @ts-expect-error an id is a number
    await plants.getPlant({ path: { id: 'one' } })
    // @ts-expect-error an order that does not exist
    await plants.listPlants({ query: { sort: 'tag' } })
    // @ts-expect-error plants include no such thing
    await plants.listPlants({ query: { include: ['photo'] } })
    // @ts-expect-error the days of an interval are a number
    await plants.putCare({ path: water, body: { every_days: '7' } })
    // @ts-expect-error a season has an end
    await plants.putCare({ path: water, body: { every_days: 7, season: { from: '11-01', every_days: 7 } } })
    // @ts-expect-error an event has a kind
    await plants.addEvent({ path, body: { note: 'New leaf' } })
    // @ts-expect-error a measured value is a number
    await plants.addEvent({ path, body: { kind: 'moisture', value: '41.5' } })
    // @ts-expect-error many events have a plant each
    await plants.addEvents({ body: [{ kind: 'water' }] })
    // @ts-expect-error replies have no such field
    added.nickname
    // @ts-expect-error a plant need not have a place
    added.place.length
    // @ts-expect-error a plant of others has no id here
    due.data.map(({ plant }) => plant + 1)
    // @ts-expect-error without an event there is no last time
    care.last + 1
  }
  void wrong
}
void main()
`

const printed = [
  '1,"Monstera deliciosa","2026-04-01"',
  'null,"bright",true',
  '412,"The plant is in another version than the request asks for. Read it again, and send its new ETag, with the quotes."',
  '[[2,"Fern"],[3,"Iris"]]',
  '[["Iris",0],["Fern",0]]',
  '7,null,null',
  '[[2,"mist",0]],false',
  '"moisture",41.5,true',
  '[[2,"mist"]]',
  '["%"]',
  '"image/png",true',
  '5',
  '1,true',
  '204',
  '',
].join('\n')

let folder: ReturnType<typeof installPackages>

/** Runs a program of the folder's packages, or one of the two. @throws Error with what it printed, if it fails */
async function run(program: string, words: readonly string[] = [], service?: TestService): Promise<string> {
  const env = {
    ...process.env,
    ...compileCache,
    URL_OF_SERVICE: service?.url,
    KEY: service?.key,
    PHOTO: png().toString('base64'),
  }
  const ran = promisify(execFile)(process.execPath, [program, ...words], { cwd: folder.path, env })
  const { stdout } = await ran.catch((error) => Promise.reject(new Error(`${error.stdout}${error.stderr}`)))
  return stdout
}

beforeAll(async () => {
  folder = installPackages(packages)
  const document = fileURLToPath(openApiFile)
  writeFileSync(join(folder.path, 'tsconfig.json'), JSON.stringify(tsconfig))
  writeFileSync(join(folder.path, 'fetch.ts'), openapiFetch)
  writeFileSync(join(folder.path, 'hey.ts'), heyApi)
  await run('node_modules/openapi-typescript/bin/cli.js', [document, '-o', 'types.d.ts'])
  await run('node_modules/@hey-api/openapi-ts/bin/run.js', ['-i', document, '-o', 'client'])
})

afterAll(() => folder?.remove())

test('the programs compile, and each wrong name and type in them is an error of the compiler', async () => {
  await run('node_modules/typescript/bin/tsc')
})

test.each(['out/fetch.js', 'out/hey.js'])('%s adds, changes, finds and logs', async (program) => {
  const service = await startTestService()
  const told = await run(program, [], service).finally(() => service.close())
  expect(told).toBe(printed)
})
