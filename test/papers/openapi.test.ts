import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { modelsSchemaFile, openApiFile, writeModelsSchema, writeOpenApi } from '../../openapi/write.ts'
import { cardOfV3 } from '../support/cards.ts'
import { cardChunk, png } from '../support/containers.ts'
import { putIntoLedger } from '../support/ledger.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openSql } from '../support/test-sql.ts'

type Fields = Readonly<Record<string, unknown>>

const committed = readFileSync(openApiFile, 'utf8')
const document: Fields = JSON.parse(committed)
/** The paths of the group with the error body of plants. */
const isOfPlants = /^\/(?:plants|events|care)\b/
const exampleKey = 'key_0f8c2e6a9b7d4c1e8f3a5b6c7d8e9f00'
let service: TestService

beforeAll(async () => {
  service = await startTestService()
  // The examples of paths name this plant, and the key and the chat request that are made below.
  await service.request('/plants', { json: { id: 1, name: 'Monstera' } })
  await service.makeKey('owner', ['chat'])
  const sql = await openSql(service.dataDirectory)
  await sql.run("UPDATE keys SET id = ? WHERE scopes = 'chat'", exampleKey)
  await putIntoLedger(sql, [{ id: 'req_6f1c0a5be2d94f7f8a3000000000002a', created: '2026-11-20T08:00:00Z' }])
  await sql.close()
})

afterAll(() => service?.close())

interface Operation {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly operation: Fields
}
const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']
const operations: readonly Operation[] = Object.entries(fieldsOf(document, 'paths')).flatMap(([path, item]) =>
  Object.entries(isFields(item) ? item : {})
    .filter(([method]) => methods.includes(method))
    .map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      method: method.toUpperCase(),
      path,
      operation: isFields(operation) ? operation : {},
    })),
)

describe('the OpenAPI document', () => {
  test('is up to date with the schemas of the routes: otherwise run npm run openapi', async () => {
    expect(await writeOpenApi()).toBe(committed)
  })

  test('passes a validator as OpenAPI 3.1', async () => {
    const validator = new Validator()
    const { valid, errors } = await validator.validate(structuredClone(document))
    expect(errors).toBeUndefined()
    expect(valid).toBe(true)
    expect(validator.version).toBe('3.1')
    expect(document['openapi']).toMatch(/^3\.1\.\d+$/)
  })

  test('does not pass the same validator with a fault', async () => {
    const { valid } = await new Validator().validate({ ...structuredClone(document), paths: { plants: 5 } })
    expect(valid).toBe(false)
  })

  test('has the routes of both interfaces, but not the alias /v1 and the pages of the service', () => {
    expect(operations.map(({ name }) => name).sort()).toEqual([
      'DELETE /care/feed',
      'DELETE /characters/{name}',
      'DELETE /keys/{id}',
      'DELETE /plants/{id}',
      'DELETE /plants/{id}/care/{kind}',
      'DELETE /plants/{id}/events',
      'DELETE /plants/{id}/events/{event}',
      'DELETE /plants/{id}/photo',
      'GET /audit',
      'GET /care.ics',
      'GET /care/due',
      'GET /characters',
      'GET /characters/{name}',
      'GET /characters/{name}/avatar',
      'GET /keys',
      'GET /keys/{id}',
      'GET /limits',
      'GET /models',
      'GET /models/{id}',
      'GET /plants',
      'GET /plants/{id}',
      'GET /plants/{id}/care',
      'GET /plants/{id}/events',
      'GET /plants/{id}/events/{event}',
      'GET /plants/{id}/photo',
      'GET /requests',
      'GET /requests/{id}',
      'GET /usage',
      'PATCH /plants/{id}',
      'POST /care/feed',
      'POST /characters',
      'POST /chat/completions',
      'POST /chat/prompt',
      'POST /events',
      'POST /keys',
      'POST /keys/{id}/rotate',
      'POST /plants',
      'POST /plants/batch',
      'POST /plants/import',
      'POST /plants/{id}/care/{kind}/snooze',
      'POST /plants/{id}/events',
      'POST /responses',
      'PUT /characters/{name}',
      'PUT /plants/{id}/care/{kind}',
      'PUT /plants/{id}/photo',
    ])
    expect(committed).not.toMatch(/"\/v1|"\/docs|"\/livez|"\/openapi/)
    expect(new Set(operations.map(({ operation }) => operation['operationId'])).size).toBe(operations.length)
  })

  test('has both security schemes, and for each route the schemes that it accepts', () => {
    expect(fieldsOf(fieldsOf(document, 'components'), 'securitySchemes')).toMatchObject({
      bearer: { type: 'http', scheme: 'bearer' },
      apiKey: { type: 'apiKey', in: 'header', name: 'Authorization' },
    })
    for (const { path, operation } of operations) {
      const wanted = isOfPlants.test(path) ? [{ bearer: [] }] : [{ apiKey: [] }, { bearer: [] }]
      // The secret of a calendar is in its query.
      expect([path, operation['security']]).toEqual([path, path === '/care.ics' ? [] : wanted])
    }
  })

  test('has no keyword that only our validator reads, and no path or address of this machine', () => {
    expect(committed).not.toMatch(/errorMessage|"const": "(stop|user)"|undefined|file:|127\.0\.0\.1|\/work\//)
  })

  test('says that lists in queries are one parameter with commas, as the routes read them', () => {
    const lists = operations.flatMap(({ name, operation }) =>
      parametersOf(operation)
        .filter((parameter) => fieldsOf(parameter, 'schema')['type'] === 'array')
        .map((parameter) => [name, parameter['name'], parameter['in'], parameter['explode']]),
    )
    expect(lists).toEqual(
      ['GET /plants', 'POST /plants', 'GET /plants/{id}', 'PATCH /plants/{id}', 'POST /plants/batch'].map((name) => [
        name,
        'include',
        'query',
        false,
      ]),
    )
  })

  test('has the headers that routes read as parameters, without examples, which the page at /docs would send', () => {
    const named = operations.flatMap(({ name, operation }) =>
      parametersOf(operation)
        .filter((parameter) => parameter['in'] === 'header')
        .map((parameter) => `${parameter['name']}: ${name}${examplesIn(parameter).map((each) => `, such as ${each}`)}`),
    )
    expect(named.sort()).toEqual([
      'Idempotency-Key: POST /events',
      'Idempotency-Key: POST /plants',
      'Idempotency-Key: POST /plants/batch',
      'Idempotency-Key: POST /plants/import',
      'Idempotency-Key: POST /plants/{id}/events',
      'If-Match: DELETE /plants/{id}',
      'If-Match: PATCH /plants/{id}',
      'If-None-Match: GET /care.ics',
      'If-None-Match: GET /characters/{name}/avatar',
      'If-None-Match: GET /plants',
      'If-None-Match: GET /plants/{id}',
      'If-None-Match: GET /plants/{id}/photo',
    ])
  })

  test('has a 304 for each If-None-Match, the types of files, and no schema for pictures, which are bytes', () => {
    const repliesOf = ({ operation }: Operation) => fieldsOf(operation, 'responses')
    const conditional = operations.filter(({ operation }) =>
      parametersOf(operation).some(({ name }) => name === 'If-None-Match'),
    )
    expect(conditional).toEqual(operations.filter((each) => Object.hasOwn(repliesOf(each), '304')))
    const types = operations.flatMap((each) =>
      Object.entries(fieldsOf(fieldsOf(repliesOf(each), '200'), 'content'))
        .filter(([type]) => type !== 'application/json')
        .map(
          ([type, content]) =>
            `${each.name}: ${type}${Object.hasOwn(fieldsOf({ content }, 'content'), 'schema') ? ' as text' : ''}`,
        ),
    )
    expect(types.sort()).toEqual([
      'GET /care.ics: text/calendar as text',
      'GET /characters/{name}/avatar: image/gif',
      'GET /characters/{name}/avatar: image/jpeg',
      'GET /characters/{name}/avatar: image/png',
      'GET /characters/{name}/avatar: image/webp',
      'GET /plants/{id}/events: text/csv as text',
      'GET /plants/{id}/photo: image/jpeg',
      'GET /plants/{id}/photo: image/png',
      'GET /plants/{id}/photo: image/webp',
      'GET /plants: text/csv as text',
    ])
  })

  test('has every error in the format of plants or of chat', () => {
    for (const { path, operation } of operations) {
      const wanted = isOfPlants.test(path) ? 'PlantError' : 'ChatError'
      const refusals = Object.entries(fieldsOf(operation, 'responses')).filter(([status]) => status >= '400')
      expect(refusals.length).toBeGreaterThan(3)
      for (const [status, response] of refusals) {
        const schema = fieldsOf(fieldsOf(fieldsOf(response, 'content'), 'application/json'), 'schema')
        expect([path, status, schema]).toEqual([path, status, { $ref: `#/components/schemas/${wanted}` }])
      }
    }
  })
})

describe('the examples of the OpenAPI document', () => {
  test('are there for every operation with parameters or a body', () => {
    const lacking = operations
      .map(({ name, operation }) => ({ name, sent: [...parametersOf(operation), ...bodiesOf(operation)] }))
      .filter(({ sent }) => sent.length > 0 && sent.flatMap(examplesIn).length === 0)
      .map(({ name }) => name)
    expect(lacking).toEqual([])
  })

  const bodies = operations.flatMap(({ name, method, path, operation }) =>
    bodiesOf(operation)
      .flatMap(examplesOf)
      .map((example) => ({ name, method, path, example })),
  )

  test('are there for every request body of JSON', () => {
    const withBody = operations.filter(({ operation }) =>
      Object.hasOwn(fieldsOf(fieldsOf(operation, 'requestBody'), 'content'), 'application/json'),
    )
    expect(withBody.map(({ name }) => name).sort()).toEqual([
      'PATCH /plants/{id}',
      'POST /characters',
      'POST /chat/completions',
      'POST /chat/prompt',
      'POST /events',
      'POST /keys',
      'POST /keys/{id}/rotate',
      'POST /plants',
      'POST /plants/batch',
      'POST /plants/{id}/care/{kind}/snooze',
      'POST /plants/{id}/events',
      'POST /responses',
      'PUT /characters/{name}',
      'PUT /plants/{id}/care/{kind}',
    ])
    expect(new Set(bodies.map(({ name }) => name))).toEqual(new Set(withBody.map(({ name }) => name)))
  })

  test.each(bodies)('are accepted: $name with $example', async ({ name, method, path, example }) => {
    const id = isOfPlants.test(path) ? '1' : exampleKey
    const filled = path.replace('{name}', 'Example').replace('{id}', id).replace('{kind}', 'water')
    const response = await service.request(filled, { method, json: example })
    expect(response.status).toBe(/ \/(characters|keys)\b|\/events$|\{kind\}$/.test(name) ? 201 : 200)
    // A response of `POST /responses` has the field `error`, which is null.
    expect(JSON.parse(await response.text())).not.toHaveProperty('error.message')
  })

  test('of paths and queries are answered by GET with 200', async () => {
    await service.request('/plants', { json: { name: 'Monstera', id: 7 } })
    const body = new Uint8Array(png(cardChunk('ccv3', cardOfV3)))
    await service.request('/characters/Ada', { method: 'PUT', body, headers: { 'content-type': 'image/png' } })
    await service.request('/plants/1/photo', { method: 'PUT', body: new Uint8Array(png()) })
    const feed = await service.request('/care/feed', { method: 'POST' })
    const { url: calendar }: { url: string } = JSON.parse(await feed.text())
    const asked: string[] = []
    for (const { path, operation } of operations.filter(({ method }) => method === 'GET')) {
      const sent = parametersOf(operation).flatMap((parameter) => {
        const [example] = examplesOf(parameter)
        return example === undefined
          ? []
          : [{ name: String(parameter['name']), in: parameter['in'], example: `${example}` }]
      })
      const inPath = new Map(sent.filter((each) => each.in === 'path').map(({ name, example }) => [name, example]))
      const query = sent.filter((each) => each.in === 'query').map(({ name, example }) => [name, example])
      const filled = path.replace(/\{(\w+)\}/g, (written, name) => inPath.get(name) ?? written)
      if (filled.includes('{')) continue
      const filledIn = query.length > 0 ? `${filled}?${new URLSearchParams(query)}` : filled
      const url = path === '/care.ics' ? calendar : filledIn
      const response = await service.request(url)
      expect([url, response.status]).toEqual([url, 200])
      asked.push(url)
    }
    expect(asked).toContain('/models/understudy')
  })
})

test('GET /openapi.json serves the committed file unchanged, without a key', async () => {
  const response = await service.request('/openapi.json', { headers: { authorization: null } })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(Buffer.from(await response.arrayBuffer())).toEqual(readFileSync(openApiFile))
})

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The object under this name; an empty object if there is none. */
function fieldsOf(value: unknown, name: string): Fields {
  const field = isFields(value) ? value[name] : undefined
  return isFields(field) ? field : {}
}

function parametersOf(operation: Fields): readonly Fields[] {
  const parameters = operation['parameters']
  return Array.isArray(parameters) ? parameters.filter(isFields) : []
}

/** The request bodies of an operation: media types, each with its schema and its examples. */
function bodiesOf(operation: Fields): readonly Fields[] {
  return Object.values(fieldsOf(fieldsOf(operation, 'requestBody'), 'content')).filter(isFields)
}

/** The schema that a `$ref` refers to; without a `$ref`, the schema itself. */
function resolved(schema: Fields): Fields {
  const reference = schema['$ref']
  if (typeof reference !== 'string') return schema
  return fieldsOf(fieldsOf(fieldsOf(document, 'components'), 'schemas'), reference.split('/').at(-1) ?? '')
}

/** The examples of a parameter, a body or a schema, without those of its parts. */
function examplesOf(described: Fields): readonly unknown[] {
  const { example, examples, schema } = resolved(described)
  return [
    ...(example === undefined ? [] : [example]),
    ...(Array.isArray(examples) ? examples : Object.values(isFields(examples) ? examples : {}).map(valueOfExample)),
    ...(isFields(schema) ? examplesOf(schema) : []),
  ]
}

/** The value of one of several examples of a body. */
function valueOfExample(example: unknown): unknown {
  return isFields(example) ? example['value'] : undefined
}

/** The examples of a parameter, a body or a schema, and of all its parts. */
function examplesIn(described: Fields): readonly unknown[] {
  const own = resolved(described)
  const parts = Object.values(own).flatMap((value): readonly unknown[] => (Array.isArray(value) ? value : [value]))
  return [...examplesOf(own), ...parts.filter(isFields).flatMap(examplesIn)]
}

test('the committed schema of models.json is up to date with its settings', () => {
  expect(readFileSync(modelsSchemaFile, 'utf8')).toBe(writeModelsSchema())
})
