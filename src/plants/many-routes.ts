import { setImmediate as yieldTurn } from 'node:timers/promises'
import { Kind, Type, TypeRegistry } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { actorOf, callerOf, requireScope } from '../access/guard.ts'
import { plantsAllowed } from '../access/limits-in-force.ts'
import { digestOf } from '../bytes.ts'
import { csvFault, readCsv } from '../csv.ts'
import { ApiError } from '../errors.ts'
import { takeBodies } from '../http/body.ts'
import { setIgnoredHeader } from '../http/ignored-params.ts'
import { answers, choice, type TypedInstance } from '../http/openapi-fields.ts'
import { canonicalDigest } from './idempotency.ts'
import { shownPlants } from './includes.ts'
import { keyOfRoute } from './kept-replies.ts'
import type { RouteOptions } from './options.ts'
import { jsonType } from './page-replies.ts'
import { checkedPlant, type ManyPlants } from './plant.ts'
import { atLine, PlantColumns } from './plant-csv.ts'
import { includedIn, NewPlant, OnePlantQuery, PlantError, refusals, security } from './schemas.ts'

/** The most bytes of a body with many plants. */
const maxManyBytes = 8 * 1024 ** 2
const maxBatch = 1000
const maxImport = 10_000

/** How long a request works in one turn of the event loop. */
const maxTurnMs = 4

const writeRefusals = [...refusals, 409, 413, 415, 422, 507]

// The example of one plant would appear beside the example of the array.
const onePlant = { title: 'NewPlant', errorMessage: 'send an object such as {"name": "Fern"}' }
const NewPlants = Type.Array(Type.Object(NewPlant.properties, onePlant), {
  minItems: 1,
  maxItems: maxBatch,
  errorMessage: `send an array of 1 to ${maxBatch} plants`,
  examples: [
    [
      { name: 'Fern', tag: 'shade' },
      { name: 'Ivy', place: 'Kitchen' },
    ],
  ],
})

const ImportQuery = Type.Object({
  dry_run: Type.Optional(
    choice(['true', 'false'], {
      description: 'Whether to check only, and to add nothing.',
      errorMessage: 'send true or false, once',
      examples: ['true'],
    }),
  ),
})

const Import = Type.Object(
  {
    object: Type.Literal('import'),
    plants: Type.Integer({ description: 'How many plants the file has.' }),
    dry_run: Type.Boolean({ description: 'True if nothing was added.' }),
  },
  { title: 'Import' },
)

// The rows are checked while they are read.
TypeRegistry.Set('Csv', (_schema, value) => value === undefined || Buffer.isBuffer(value))
const csvBody = {
  content: { 'text/csv': { schema: Type.Unsafe<Buffer | undefined>({ [Kind]: 'Csv', type: 'string' }) } },
}

/** Registers the routes that add many plants. */
export async function manyRoutes(app: TypedInstance, options: RouteOptions): Promise<void> {
  batchRoute(app, options)
  await app.register(async (csvApp: TypedInstance) => {
    csvApp.removeAllContentTypeParsers()
    takeBodies(csvApp, 'text/csv', (_request, body) => body)
    importRoute(csvApp, options)
  })
}

function batchRoute(app: TypedInstance, { store, limits, includes, plantSchema }: RouteOptions): void {
  app.post(
    '/batch',
    {
      onRequest: requireScope('plants:write'),
      bodyLimit: maxManyBytes,
      schema: {
        operationId: 'addPlants',
        summary: 'Create many plants',
        description: `Adds 1 to ${maxBatch} plants in their order, all or none, as if each was sent to \`POST /plants\`. The reply comes when all are on disk. An error names the plant by its index in the array, counted from 0. With an \`Idempotency-Key\`, a repeated request adds them once. Unknown fields are ignored, and named in the reply header \`x-ignored-params\`.`,
        tags: ['plants'],
        security,
        querystring: OnePlantQuery,
        body: NewPlants,
        response: answers({ 200: Type.Array(plantSchema) }, PlantError, writeRefusals),
      },
    },
    async (request, reply) => {
      setIgnoredHeader(request, reply, { query: OnePlantQuery, body: NewPlant })
      const { body } = request
      const hasKey = request.headers['idempotency-key'] !== undefined
      const digests = hasKey ? await mapInTurns(body, canonicalDigest) : []
      const caller = callerOf(request)
      const { plants, created, isReplay } = await whileCounted(request, async () =>
        store.createMany({
          account: caller.account.id,
          plants: await mapInTurns(body, (plant, index) => checkedAt(index, plant)),
          faultAt: atIndex,
          idempotency: keyOfRoute(request, digests.join()),
          limit: plantsAllowed(caller, limits),
        }),
      )
      if (isReplay) reply.header('idempotency-replayed', 'true')
      const detailed = plants.map((plant) => ({ ...plant, created, updated: created, version: 1 }))
      const shown = await shownPlants(includes, caller.account.id, detailed, includedIn(request.query.include))
      const texts = await mapInTurns(shown, (plant) => JSON.stringify(plant))
      return reply.type(jsonType).send(`[${texts.join()}]`)
    },
  )
}

function importRoute(app: TypedInstance, { store, limits }: RouteOptions): void {
  app.post(
    '/import',
    {
      onRequest: [requireScope('plants:write'), acceptCsv],
      bodyLimit: maxManyBytes,
      schema: {
        operationId: 'importPlants',
        summary: 'Import plants from a CSV file',
        description: `Adds the plants of a CSV file in UTF-8, up to ${maxImport}, all or none. The first row has the names of the columns, in any order: \`name\`, and any of \`id\`, \`tag\`, \`species\`, \`place\`, \`light\`, \`acquired\`, \`notes\` and \`archived\`. \`GET /plants?format=csv\` writes such files. Other columns are ignored, and named in the reply header \`x-ignored-params\`. An error names the line. With an \`Idempotency-Key\`, a repeated request adds them once. With \`dry_run=true\` the file is checked, and nothing is added.`,
        tags: ['plants'],
        security,
        querystring: ImportQuery,
        body: csvBody,
        response: answers({ 200: Import }, PlantError, writeRefusals),
      },
    },
    async (request, reply) => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
      const isDryRun = request.query.dry_run === 'true'
      const caller = callerOf(request)
      const answer = await whileCounted(request, async () => {
        const { ignored, ...file } = await readPlants(body)
        setIgnoredHeader(request, reply, { query: ImportQuery }, ignored)
        const many = { account: caller.account.id, limit: plantsAllowed(caller, limits), ...file }
        if (isDryRun) await store.checkMany(many)
        else {
          // An import counts in the limit `plants`, and not in the limit on changes of a day.
          const importedBy = { ...actorOf(request, limits), changeLimits: [] }
          const idempotency = keyOfRoute(request, digestOf(body))
          const { isReplay } = await store.createMany({ ...many, idempotency, importedBy })
          if (isReplay) reply.header('idempotency-replayed', 'true')
        }
        return { object: 'import', plants: file.plants.length, dry_run: isDryRun }
      })
      return answer
    },
  )
}

/** Refuses a body of another type before it is read. */
async function acceptCsv({ headers }: FastifyRequest): Promise<void> {
  const type = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  if (type === 'text/csv') return
  const message = 'This content type is not supported. Send a CSV file with the header Content-Type: text/csv.'
  throw new ApiError(415, 'unsupported_media_type', message)
}

/** Reads the plants of a CSV file. @throws ApiError 400 that names the line of the first fault */
async function readPlants(
  body: Buffer,
): Promise<Pick<ManyPlants, 'plants' | 'faultAt'> & { readonly ignored: readonly string[] }> {
  let columns: PlantColumns | undefined
  const plants: NewPlant[] = []
  const lines: number[] = []
  for await (const rows of readCsv(once(body))) {
    for (const row of rows) {
      if (!columns) {
        columns = new PlantColumns(row)
        continue
      }
      if (plants.length === maxImport)
        throw csvFault(row.line, `the file has more than ${maxImport} plants. Send several files`)
      plants.push(columns.read(row))
      lines.push(row.line)
    }
  }
  if (!columns) throw csvFault(1, 'the file is empty. Begin it with the names of the columns')
  return { plants, ignored: columns.ignored, faultAt: (index, error) => atLine(lines[index] ?? 1, error) }
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

function checkedAt(index: number, plant: NewPlant): NewPlant {
  try {
    return checkedPlant(plant)
  } catch (error) {
    throw error instanceof ApiError ? atIndex(index, error) : error
  }
}

function atIndex(index: number, error: ApiError): ApiError {
  return error.withParam(
    `[${index}]${error.param === null ? '' : `.${error.param}`}`,
    `Plant [${index}]: ${error.message}`,
  )
}

/** Maps items, with other requests between them. */
async function mapInTurns<T, R>(items: readonly T[], map: (item: T, index: number) => R): Promise<readonly R[]> {
  const mapped: R[] = []
  let began = performance.now()
  for (const [index, item] of items.entries()) {
    mapped.push(map(item, index))
    if (performance.now() - began < maxTurnMs) continue
    await yieldTurn()
    began = performance.now()
  }
  return mapped
}

/** Keeps a body counted as in flight until its plants are written, even if the client disconnects. */
function whileCounted<T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> {
  return request.held?.during(work()) ?? work()
}
