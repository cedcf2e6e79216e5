import type { Server } from 'node:http'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { auditPlugin } from './access/audit-plugin.ts'
import { callerOf, type Guard, guardRequests } from './access/guard.ts'
import { keysPlugin } from './access/plugin.ts'
import { countEvents } from './care/events.ts'
import { feedPlugin } from './care/feed-routes.ts'
import { careIncludes } from './care/includes.ts'
import { carePlugin } from './care/plugin.ts'
import type { CharacterLibrary } from './characters/library/library.ts'
import { charactersPlugin } from './characters/plugin.ts'
import type { PromptSettings } from './characters/prompt/composition.ts'
import type { ChatOptions } from './chat/options.ts'
import { chatPlugin } from './chat/plugin.ts'
import { type Clock, machineClock } from './clock.ts'
import type { Config } from './config.ts'
import { type BytesInFlight, countBytes } from './http/bytes-in-flight.ts'
import { ReaderLimit } from './http/cached-document.ts'
import { documentsPlugin } from './http/documents.ts'
import { Drain } from './http/drain.ts'
import { answerError, plantsPrefix } from './http/errors.ts'
import { healthPlugin } from './http/health.ts'
import { acceptJsonOnly } from './http/json.ts'
import { answerParserError } from './http/parser-error.ts'
import { type LoopMonitor, shedLoadUnderPressure } from './http/pressure.ts'
import { logRequests, makeRequestId, sameLogger } from './http/request-log.ts'
import { cutOffStalledReaders, timeLimits } from './http/slow-clients.ts'
import { refuseUnfitRequests, refuseUnknownRoutes } from './http/unfit-request.ts'
import { loadCompilerWhenNeeded, serializerCompiler, validatorCompiler } from './http/validation.ts'
import type { Limiter } from './limits/limiter.ts'
import { limitsPlugin } from './limits/plugin.ts'
import type { Counters, StoredCounts } from './limits/standing.ts'
import type { Metrics } from './metrics/metrics.ts'
import { addPageCacheMetrics } from './metrics/parts.ts'
import { metricsPlugin } from './metrics/plugin.ts'
import { modelsPlugin } from './models/plugin.ts'
import type { ModelRegistry } from './models/registry.ts'
import { pagePlugin } from './page/plugin.ts'
import { PageCache } from './plants/page-cache.ts'
import { photoPlugin } from './plants/photo-routes.ts'
import { plantsPlugin } from './plants/plugin.ts'
import { OutputItemCache } from './responses/output-item-cache.ts'
import { responsesPlugin } from './responses/plugin.ts'
import { Damage } from './storage/damage.ts'
import type { Stores } from './stores/stores.ts'
import type { Tracer } from './tracing/tracer.ts'
import type { Metering } from './usage/metered-request.ts'
import { usagePlugin } from './usage/plugin.ts'
import { noAccount, type Works } from './work/work.ts'

/** The opened parts that the HTTP service is built from. */
export interface AppParts {
  readonly config: Config
  readonly stores: Stores
  /** Whether the database was found damaged. Without this part `/readyz` never reports damage. */
  readonly damage?: Damage
  readonly guard: Guard
  readonly limiter: Limiter
  readonly library: CharacterLibrary
  readonly models: ModelRegistry
  readonly metering: Metering
  readonly prompt: PromptSettings
  readonly metrics: Metrics
  /** Whether the service is about to stop. Without this part the service never drains. */
  readonly drain?: Drain
  /** Counts the bytes that requests hold. */
  readonly inFlight: BytesInFlight
  /** Runs the heavy work of all requests. */
  readonly works: Works
  /** Traces requests; undefined if traces are off. */
  readonly tracer?: Pick<Tracer, 'traceRequests'> | undefined
  readonly logger: FastifyBaseLogger
  /** The clock for the keep-alives of streams. By default it is the machine's clock. */
  readonly clock?: Clock | undefined
  /** The event-loop measurements that load shedding uses. By default they come from this process. */
  readonly loop?: LoopMonitor | undefined
}

/** Makes the Fastify instance, with the behaviour that all routes share. */
export function createServer(
  logger: FastifyBaseLogger,
  config: Pick<Config, 'requestTimeoutSeconds'>,
  { ServerResponse }: Drain = new Drain(),
): FastifyInstance {
  const { http, ...limits } = timeLimits(config)
  const options: FastifyHttpOptions<Server, FastifyBaseLogger> = {
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: sameLogger,
    genReqId: makeRequestId,
    requestIdHeader: false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 1000 },
    frameworkErrors: answerError,
    clientErrorHandler: answerParserError,
    ...limits,
    // With `requireHostHeader: true`, Node itself refuses a request without `Host`, and the reply of Node has no body.
    http: { ...http, requireHostHeader: false, ServerResponse },
  }
  // Without this option Fastify loads its own compilers. They take 3 MB, and nothing uses them. Fastify's types allow only its
  // own compilers, hence Object.assign.
  const compilersFactory = { buildValidator: () => validatorCompiler, buildSerializer: () => serializerCompiler }
  return Fastify(Object.assign(options, { schemaController: { compilersFactory } }))
}

/**
 * Registers the whole HTTP service: first the hooks of all routes, then the routes. Hooks of the same kind run in the order of
 * registration.
 */
export async function registerService(app: FastifyInstance, parts: AppParts): Promise<void> {
  const { config, stores, guard, limiter, library, metrics, inFlight, drain = new Drain() } = parts

  // Fastify gives a plugin the error handler of the moment at which the plugin is registered, and CORS is a plugin.
  app.setErrorHandler(answerError)
  shareDeadline(app, stores)
  const workOf = workByRequest(parts.works)
  acceptJsonOnly(app, workOf)
  loadCompilerWhenNeeded(app)
  logRequests(app, metrics, config.trustedProxies)
  parts.tracer?.traceRequests(app)
  cutOffStalledReaders(app, config.readerTimeoutSeconds * 1000)
  refuseUnfitRequests(app)
  if (config.corsOrigins.length > 0) {
    const { allowOrigins } = await import('./http/cors.ts')
    await allowOrigins(app, config.corsOrigins)
  }
  const shedLoad = await shedLoadUnderPressure(app, parts.loop)
  refuseUnknownRoutes(app)
  guardRequests(app, guard)
  countBytes(app, inFlight, ({ caller }) => caller?.account.id ?? noAccount)

  await app.register(healthPlugin, { check: stores.check, drain, damage: parts.damage ?? new Damage() })
  const readers = new ReaderLimit()
  if (config.docs === 'on') await app.register(documentsPlugin, { readers })
  if (config.page === 'on') await app.register(pagePlugin, { hasDocuments: config.docs === 'on', readers })

  // If METRICS_PORT is set, the metrics are served only on that port.
  if (config.metricsPort === undefined) await app.register(metricsPlugin, { guard, metrics })

  const pages = new PageCache()
  addPageCacheMetrics(metrics, pages)
  await app.register(plantsPlugin, {
    prefix: plantsPrefix,
    store: stores.plants,
    scripts: stores.scripts,
    guard,
    pages,
    bodyLimit: config.plantBodyLimit,
    limits: config.limits,
    includes: careIncludes(stores.scripts),
  })

  const { photos } = stores
  await app.register(photoPlugin, { prefix: plantsPrefix, photos, guard, inFlight, workOf, limits: config.limits })
  const care = { scripts: stores.scripts, store: stores.plants, guard, limits: config.limits }
  await app.register(carePlugin, care)
  await app.register(feedPlugin, { ...care, audit: stores.audit, works: parts.works, readers })

  await app.register(keysPlugin, { prefix: '/keys', store: stores.access, guard, limits: config.limits })
  await app.register(auditPlugin, { guard, audit: stores.audit })

  await app.register(charactersPlugin, {
    prefix: '/characters',
    guard,
    library,
    store: stores.characters,
    workOf,
    inFlight,
    bodyLimit: config.cardBodyLimit,
    limits: config.limits,
  })

  const flush = () => stores.ledger.flush()
  await app.register(usagePlugin, { guard, usage: stores.usage, access: stores.access, flush })
  await app.register(limitsPlugin, { guard, limiter, settings: config.limits, counters: countersOf(stores), flush })

  const openHeld = (request: FastifyRequest) => inFlight.open(callerOf(request).account.id)
  await registerChat(app, parts, { shedLoad, workOf, openHeld })
}

/** Registers the routes of chat, responses and models twice: without a prefix, and under `/v1`. */
async function registerChat(
  app: FastifyInstance,
  parts: AppParts,
  shared: Pick<ChatOptions, 'shedLoad' | 'workOf' | 'openHeld'>,
): Promise<void> {
  const { config, stores, guard, limiter, library, models, metering, prompt } = parts
  const chat: ChatOptions = {
    guard,
    models,
    library,
    metering,
    limiter,
    prompt,
    characters: config.characters,
    characterModels: config.characterModels,
    ...shared,
    bodyLimit: config.chatBodyLimit,
    sseKeepaliveMs: config.sseKeepaliveMs,
    clock: parts.clock ?? machineClock,
    shutdownGraceMs: config.shutdownGraceSeconds * 1000,
  }
  await app.register(chatPlugin, chat)
  const listing = { guard, models, library, store: stores.characters }
  await app.register(modelsPlugin, listing)
  const responses = { ...chat, items: new OutputItemCache(performance.now.bind(performance)) }
  await app.register(responsesPlugin, responses)
  // Many clients add `/v1` to the base URL.
  await app.register(chatPlugin, { ...chat, prefix: '/v1', isAlias: true })
  await app.register(responsesPlugin, { ...responses, prefix: '/v1', isAlias: true })
  await app.register(modelsPlugin, { ...listing, prefix: '/v1', isAlias: true })
}

/** Gives all database calls of a request one common deadline. Only the stores of PostgreSQL support this deadline. */
export function shareDeadline(app: FastifyInstance, { duringRequest }: Pick<Stores, 'duringRequest'>): void {
  if (!duringRequest) return
  app.addHook('onRequest', (_request, reply, done) => {
    // A connection that is opened during a request keeps the context of the request as long as it is open, which can be hours. So
    // the context forgets the request, with its body and its reply, at the end.
    let current: FastifyReply | undefined = reply
    reply.raw.once('close', () => {
      current = undefined
    })
    const asker = {
      account: () => current?.request.caller?.account.id,
      isAnswered: () => current === undefined || current.raw.headersSent || current.raw.destroyed,
    }
    duringRequest(asker, done)
  })
}

/** Makes a function that opens the `Work` of a request. */
function workByRequest(works: Works) {
  return (request: FastifyRequest, signal: AbortSignal) =>
    works.workOf({ account: callerOf(request).account.id, signal })
}

/** Counts what an account has stored, and the changes of a day. */
function countersOf({ plants, photos, characters, access, ledger, scripts }: Stores): Counters {
  const stored: StoredCounts = {
    plants: (account, enough) => plants.count(account, enough),
    photo_bytes: (account) => photos.bytesOf(account),
    characters: async (account) => (await characters.count(account)).characters,
    keys: (account) => access.countKeys(account),
    character_bytes: async (account) => (await characters.count(account)).bytes,
    events: (account) => scripts.read(() => countEvents(account)),
  }
  return { stored, spent: (subject, from, to) => ledger.spent(subject, from, to) }
}
