import { readFileSync, writeFileSync } from 'node:fs'
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import pino from 'pino'
import { Guard } from '../src/access/guard.ts'
import { createServer, registerService } from '../src/app.ts'
import { CharacterLibrary } from '../src/characters/library/library.ts'
import { readConfig } from '../src/config.ts'
import { BytesInFlight } from '../src/http/bytes-in-flight.ts'
import { Metrics } from '../src/metrics/metrics.ts'
import { defaultModels } from '../src/models/configuration/configuration.ts'
import { ModelsFile } from '../src/models/configuration/models-file.ts'
import { ModelRegistry } from '../src/models/registry.ts'
import { openSqliteStores } from '../src/stores/stores.ts'
import { Metering } from '../src/usage/metered-request.ts'
import { WorkerPool } from '../src/work/pool.ts'
import { Works } from '../src/work/work.ts'

/** The committed OpenAPI document, which the service serves as it is. */
export const openApiFile = new URL('conservatory.json', import.meta.url)

const securitySchemes = {
  bearer: { type: 'http' as const, scheme: 'bearer', description: 'The token, as `Authorization: Bearer <token>`.' },
  apiKey: {
    type: 'apiKey' as const,
    in: 'header' as const,
    name: 'Authorization',
    description: 'The API key, as `Authorization: <API_KEY>` or `Authorization: Bearer <API_KEY>`.',
  },
}

/** The committed JSON Schema of `models.json`, for editors. */
export const modelsSchemaFile = new URL('models.schema.json', import.meta.url)

/**
 * Registers every route of the service on an app without a listener, over a database in memory with the default settings.
 * @param prepare gets the app before the first route is registered
 * @returns what `read` makes of the finished app, which is closed afterwards
 */
export async function withRoutes<T>(
  prepare: (app: FastifyInstance) => unknown,
  read: (app: FastifyInstance) => T,
): Promise<T> {
  const logger = pino({ level: 'silent' })
  const stores = openSqliteStores(':memory:')
  const config = readConfig({})
  const app = createServer(logger, config)
  await prepare(app)
  const limiter = stores.limiter(config.limits)
  await registerService(app, {
    config,
    stores,
    models: new ModelRegistry(defaultModels(undefined), config),
    library: new CharacterLibrary({ store: stores.characters, maxCardBytes: config.cardBodyLimit }),
    metering: new Metering({
      limiter,
      ledger: stores.ledger,
      onFailure: () => {},
    }),
    guard: new Guard(stores.access),
    limiter,
    prompt: { systemPrompt: '' },
    metrics: new Metrics(),
    inFlight: new BytesInFlight(config.maxInFlightBytes),
    works: new Works(new WorkerPool()),
    logger,
  })
  await app.ready()
  const result = read(app)
  await app.close()
  await stores.close()
  return result
}

/** Writes the OpenAPI document of the service from the TypeBox schemas of its routes, as the file's text. */
export async function writeOpenApi(): Promise<string> {
  const document = await withRoutes(describe, (app) => app.swagger())
  const components: Record<string, unknown> = {}
  const paths = tidied(withHeaders(withMeanings(document.paths)), components)
  const schemas = Object.fromEntries(Object.entries(components).sort(([a], [b]) => a.localeCompare(b)))
  return `${JSON.stringify({ ...document, components: { securitySchemes, schemas }, paths }, null, 2)}\n`
}

/** The description of a response by its status, for routes that say nothing of their own. */
const meanings: Readonly<Record<string, string>> = {
  200: 'The request is done.',
  201: 'The object is made.',
  400: 'The request is not valid; the message says what to change.',
  401: 'The key is missing or wrong, or it has expired or was revoked.',
  403: 'The key may not do this, or its account is suspended.',
  404: 'There is no such object for this key.',
  409: 'The request conflicts with the present state, for example an id that is taken; the message says why.',
  413: 'The body is too large.',
  415: 'The type of the body is not supported.',
  422: 'The `Idempotency-Key` was used for another request.',
  429: 'There were too many requests, tokens, objects or wrong keys; the message says which.',
  500: 'The service has a fault.',
  502: "The model's service failed.",
  503: 'The service, its database or the model cannot answer now; try again after `Retry-After`.',
  504: "The model's service took too long.",
  507: 'The disk is full.',
}

/** Puts the meaning of a status where @fastify/swagger says "Default Response". */
function withMeanings(value: unknown, status = ''): unknown {
  if (Array.isArray(value)) return value.map((item) => withMeanings(item))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, item]): [string, unknown] =>
    name === 'description' && item === 'Default Response'
      ? [name, meanings[status] ?? item]
      : [name, withMeanings(item, name)],
  )
  return Object.fromEntries(entries)
}

/**
 * The headers that are parameters of each operation whose description names them. A schema in the route would be checked in each
 * request, and the routes read these headers themselves. They have no examples, because the page at /docs would send these: a 412.
 */
const headers: Readonly<Record<string, string>> = {
  'Idempotency-Key':
    '1 to 255 printable ASCII characters of your choice. A repeated request with them gets the first answer.',
  'If-Match': 'The `ETag` of the version that you have read, with its quotes.',
  'If-None-Match': 'The `ETag` of the reply that you have, with its quotes.',
}

function withHeaders(value: unknown): unknown {
  if (!isObject(value)) return value
  const { operationId, description, parameters } = value
  if (operationId === undefined) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withHeaders(item)]))
  }
  const named = Object.entries(headers)
    .filter(([name]) => String(description).includes(`\`${name}\``))
    .map(([name, text]) => ({ schema: { type: 'string' }, in: 'header', name, required: false, description: text }))
  if (named.length === 0) return value
  return { ...value, parameters: [...(Array.isArray(parameters) ? parameters : []), ...named] }
}

/** Makes the app collect the description of its routes. */
async function describe(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Conservatory',
        version: readVersion(),
        description: 'A plant store and character chat, one service.',
        contact: { name: 'The maintainers of Conservatory' },
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: '/' }],
      tags: [
        { name: 'plants', description: 'The plant store.' },
        { name: 'care', description: 'Care of plants: schedules, what is due, and the log of what was done.' },
        { name: 'characters', description: 'Character cards: your own, and those for every account.' },
        {
          name: 'keys',
          description: 'The keys of your account, for keys with the scope `keys` or `admin`, and the audit trail.',
        },
        {
          name: 'chat',
          description: "Character chat, in the formats of OpenAI's chat completions and Responses API, and the models.",
        },
        { name: 'usage', description: 'The chat requests, the usage and the limits of your account.' },
      ],
      components: { securitySchemes },
      security: [{ bearer: [] }],
    },
  })
}

/**
 * Moves titled schemas to the components, turns unions of string constants into enums, moves `explode` from the schema of a
 * parameter to the parameter, and removes `errorMessage`, which only our validator reads, and schemas that only repeat a media type.
 */
function tidied(value: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => tidied(item, components))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([name]) => name !== 'errorMessage')
  const plain: Record<string, unknown> = Object.fromEntries(
    entries.map(([name, item]) => [name, tidied(item, components)]),
  )
  const { schema: inner, ...outer } = plain
  if (isObject(inner)) {
    const { explode, ...schema } = inner
    if (explode !== undefined) return { schema, ...outer, explode }
    if (Object.keys(inner).join() === 'contentMediaType') return outer
  }
  const { title, anyOf, ...rest } = plain
  if (typeof title === 'string' && 'type' in plain) {
    const { title: _title, ...schema } = plain
    components[title] = schema
    return { $ref: `#/components/schemas/${title}` }
  }
  const words = Array.isArray(anyOf) ? anyOf.map((choice: unknown) => constantOf(choice)) : []
  if (words.length > 0 && words.every((word) => word !== undefined)) return { ...rest, type: 'string', enum: words }
  return plain
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

function constantOf(choice: unknown): string | undefined {
  const isConstant = typeof choice === 'object' && choice !== null && 'const' in choice
  return isConstant && typeof choice.const === 'string' ? choice.const : undefined
}

function readVersion(): string {
  const manifest: { version: string } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  return manifest.version
}

/** Writes the JSON Schema of `models.json`, as the file's text. */
export function writeModelsSchema(): string {
  const schema = { $schema: 'https://json-schema.org/draft/2020-12/schema', ...ModelsFile }
  return `${JSON.stringify(schema, null, 2)}\n`
}

if (import.meta.main) {
  writeFileSync(openApiFile, await writeOpenApi())
  writeFileSync(modelsSchemaFile, writeModelsSchema())
}
