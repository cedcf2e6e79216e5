import type { FastifyInstance } from 'fastify'
import { type Bootstrap, bootstrapAccess } from './access/bootstrap.ts'
import { Guard } from './access/guard.ts'
import { createServer, registerService } from './app.ts'
import { globalEntry } from './audit/database-entries.ts'
import { type Actor, serviceActor } from './audit/record.ts'
import { CharacterUses } from './characters/character-uses.ts'
import { type CharacterLibrary, createLibrary } from './characters/library/library.ts'
import { notePictures } from './characters/picture-notes.ts'
import { uploadTtlSeconds } from './characters/pieces.ts'
import { promptSettings } from './characters/prompt/settings.ts'
import { purgeVersions } from './characters/purge.ts'
import { type Clock, machineClock } from './clock.ts'
import type { Config, Traces } from './config.ts'
import { BytesInFlight } from './http/bytes-in-flight.ts'
import { Drain } from './http/drain.ts'
import type { LoopMonitor } from './http/pressure.ts'
import type { Limiter } from './limits/limiter.ts'
import { limitWarnings } from './limits/warnings.ts'
import { type Log, openLog } from './log.ts'
import { countAttempts, Metrics } from './metrics/metrics.ts'
import { addPartMetrics } from './metrics/parts.ts'
import { type MetricsServer, serveMetrics } from './metrics/plugin.ts'
import { loadModels } from './models/configuration/configuration.ts'
import { ModelRegistry } from './models/registry.ts'
import { keyLifetimeSeconds } from './plants/policy.ts'
import { printNotice } from './print.ts'
import type { Proxies } from './proxies.ts'
import { Damage, damageSentence } from './storage/damage.ts'
import { prepareFolder } from './storage/data-folder.ts'
import { type Prunable, pruneOld, type Retention } from './storage/prune.ts'
import { lockForServing, type ServeLock } from './storage/serve-lock.ts'
import { retryAtStart } from './storage/start-wait.ts'
import { openStores, watchForDamage } from './stores/open.ts'
import type { Stores } from './stores/stores.ts'
import { unixSeconds } from './time.ts'
import type { Tracer } from './tracing/tracer.ts'
import { Metering } from './usage/metered-request.ts'
import { noAccount, Scheduler } from './work.ts'

/** The running service. */
export interface Service {
  /** Where it listens, such as `http://127.0.0.1:3000`. */
  readonly address: string
  /** Where the metrics are, when they have a port of their own. */
  readonly metricsAddress: string | undefined
  readonly bootstrap: Bootstrap
  /** Sentences for the operator: keys whose own limits are above those of their accounts. */
  readonly limitWarnings: readonly string[]
  /** Reads `models.json` and the character folders again; what has faults changes nothing and is told of in the log. */
  reload(): Promise<void>
  /** Goes on as before for DRAIN_SECONDS, while `/readyz` and each reply tell clients to go elsewhere. */
  drain(): Promise<void>
  /** Stops accepting, lets open replies end, and closes everything in the reverse order of opening. */
  close(): Promise<void>
}

/** A test's own time in place of the machine's: the test then does not depend on the machine's speed. */
export interface TimeSources {
  /**
   * Tells of the models' time limits, of pauses between tries, of models that are left alone, of silent streams, and of
   * failed logins that wait; and of the drain.
   */
  readonly clock?: Clock
  /** What the overload guard sees of the event loop. */
  readonly loop?: LoopMonitor
}

/** Milliseconds after the start. */
const readCharactersAfter = 500

/** Milliseconds between two searches for expired idempotency keys, for requests to sum up, or for cards' pieces that no version has. */
const oftenMs = 10_000
/** The seconds of a day. */
const day = 86_400

/** What the service is made of, opened. */
interface Parts {
  readonly log: Log
  /** The service, as it is put on record. */
  readonly itself: Actor
  /** Undefined where the folder may be shared. */
  readonly lock: ServeLock | undefined
  readonly stores: Stores
  readonly damage: Damage
  readonly metrics: Metrics
  readonly inFlight: BytesInFlight
  readonly drain: Drain
  readonly tracer: Tracer | undefined
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly uses: CharacterUses
  readonly scheduler: Scheduler
  readonly guard: Guard
  readonly limiter: Limiter
  readonly metering: Metering
  readonly app: FastifyInstance
  /** Ends the metrics' reading of the others. */
  readonly stopReading: () => void
}

/** What goes on beside the requests, as far as it has begun. */
interface Beside {
  metricsServer?: MetricsServer
  /** The first reading of the characters, which is to come. */
  reading?: NodeJS.Timeout
  stopPruning?: () => Promise<unknown>
  stopPurging?: () => Promise<void>
  stopNoting?: () => Promise<void>
}

/**
 * Opens everything that the service needs, and listens.
 * @throws StorageError, or Node's error of a port that cannot be had; what was opened is closed again
 */
export async function startService(config: Config, { clock, loop }: TimeSources = {}): Promise<Service> {
  const parts = await openParts(config, clock)
  const { stores, app, log } = parts
  const beside: Beside = {}
  const close = () => closeParts(parts, beside, config.shutdownGraceSeconds * 1000)
  try {
    // Nobody else can have them running: the folder is held.
    await stores.ledger.interruptRunning()
    await registerService(app, { ...parts, config, prompt: promptSettings(config), logger: log.logger, clock, loop })
    const address = await app.listen({ host: config.host, port: config.port })
    await beginBeside(beside, parts, config)
    const warnings = limitWarnings(await stores.access.listKeys(), config.limits)
    // Last, since what it makes is told once: a start that fails must not have made it.
    const bootstrap = await bootstrapAccess(stores.access, config.bootstrapKey, parts.itself)
    for (const warning of bootstrap.warnings) log.logger.warn(warning)
    stores.beginServing?.()
    const metricsAddress = beside.metricsServer?.address
    const drain = () => goOnDraining(parts, config.drainSeconds * 1000, clock)
    const ways = { reload: () => reload(parts, config), drain, close }
    return { address, metricsAddress, bootstrap, limitWarnings: warnings, ...ways }
  } catch (error) {
    await close()
    throw error
  }
}

/** Opens what the service is made of. */
async function openParts(config: Config, clock: Clock | undefined): Promise<Parts> {
  const configuration = await loadModels(config)
  const log = openLog(config.logLevel)
  const { logger } = log
  const itself = serviceActor((record) => logger.info(record, 'audit record'))
  prepareFolder(config.dataDirectory)
  // Replicas over one PostgreSQL may share a folder, in which they only read.
  const opening = retryAtStart(config.startTimeoutSeconds, printNotice)
  const lock = config.databaseUrl === undefined ? await opening(() => lockForServing(config.dataDirectory)) : undefined
  const damage = new Damage((error) => logger.error({ err: error }, damageSentence))
  const opened = await openHeld(() => opening(() => openStores(config, itself)), lock)
  const stores = watchForDamage(opened, damage)
  const metrics = new Metrics()
  const tracer = config.traces && (await openTracer(config.traces, config.proxies, logger))
  const models = new ModelRegistry(configuration, config, countAttempts(metrics, tracer?.watchAttempt), clock)
  const uses = new CharacterUses(stores.characters)
  const inFlight = new BytesInFlight(config.maxInFlightBytes)
  const scheduler = new Scheduler()
  const library = createLibrary(config, stores.characters, {
    logger,
    onUse: (version) => uses.note(version),
    during: inFlight.during,
    workOf: (account) => scheduler.workOf({ account: account ?? noAccount }),
  })
  const limiter = stores.limiter(config.limits)
  const guard = new Guard(stores.access, limiter, clock)
  const metering = new Metering({
    limiter,
    ledger: stores.ledger,
    watch: metrics,
    onFailure: (request_id, error) =>
      logger.error({ request_id, err: error }, 'the end of a request waits to be written'),
  })
  const drain = new Drain()
  const app = createServer(logger, config, drain)
  const stopReading = addPartMetrics(metrics, { stores, models, limiter, inFlight })
  const parts = {
    log,
    itself,
    lock,
    stores,
    damage,
    metrics,
    inFlight,
    drain,
    tracer,
    models,
    library,
    uses,
    scheduler,
  }
  return { ...parts, guard, limiter, metering, app, stopReading }
}

/**
 * Begins what goes on beside the requests, and notes it.
 * @throws Error with one sentence when the port of the metrics cannot be had
 */
async function beginBeside(beside: Beside, parts: Parts, config: Config): Promise<void> {
  const { stores, library, uses, metrics } = parts
  const { logger } = parts.log
  if (config.metricsPort !== undefined) {
    beside.metricsServer = await serveMetrics(metrics, config.host, config.metricsPort)
  }
  // The characters are read when one is first asked for, and in any case soon: starting is quick, and faults are told.
  const follow = async (): Promise<void> => {
    await library.load()
    library.watch()
  }
  beside.reading = setTimeout(() => {
    follow().catch((error: unknown) => logger.error({ err: error }, 'the characters cannot be read'))
  }, readCharactersAfter)
  const oldKeys = { prune: stores.plants.removeExpiredKeys.bind(stores.plants) }
  const leftovers = { prune: stores.characters.removeLeftovers.bind(stores.characters) }
  const unsummed = { prune: (_before: number, most: number) => stores.ledger.addToDaySums(most) }
  const tasks: readonly [Prunable, Retention, string][] = [
    [stores.ledger, { keptSeconds: config.ledgerDays * day }, 'old entries of the ledger were not removed'],
    [stores.audit, { keptSeconds: config.auditDays * day }, 'old records of the audit trail were not removed'],
    [oldKeys, { keptSeconds: keyLifetimeSeconds, intervalMs: oftenMs }, 'expired idempotency keys were not removed'],
    [
      leftovers,
      { keptSeconds: uploadTtlSeconds, intervalMs: oftenMs },
      'pieces of cards that are gone were not removed',
    ],
    [unsummed, { keptSeconds: 0, intervalMs: oftenMs }, 'requests were not added to the usage of their days'],
  ]
  const stops = tasks.map(([store, keeping, failure]) =>
    pruneOld(store, keeping, (error) => logger.error({ err: error }, failure)),
  )
  beside.stopPruning = () => Promise.all(stops.map((stop) => stop()))
  beside.stopPurging = purgeVersions({
    store: stores.characters,
    uses,
    clock: machineClock,
    now: unixSeconds,
    by: parts.itself,
    onRemoved: (versions) => logger.info({ versions }, 'old versions of characters were removed'),
    onFailure: (error) => logger.error({ err: error }, 'old versions of characters were not removed'),
  })
  beside.stopNoting = notePictures({
    store: stores.characters,
    clock: machineClock,
    workOf: (account) => parts.scheduler.workOf({ account }),
    during: parts.inFlight.during,
    onFailure: (error) => logger.error({ err: error }, 'of an upload it was not noted whether it has a picture'),
  })
}

/** Reads the characters and `models.json` again; what has faults changes nothing. */
async function reload({ log, itself, stores, library, models }: Parts, config: Config): Promise<void> {
  const { logger } = log
  await library.load().catch((error: unknown) => logger.error({ err: error }, 'the characters cannot be read again'))
  try {
    const before = { models: models.names }
    await models.replace(await loadModels(config))
    logger.info('models.json has been read again')
    const entry = globalEntry('models.reloaded', before, { models: models.names })
    await stores.audit
      .record(itself, entry)
      .catch((error: unknown) => logger.error({ err: error }, 'that models.json was read again is not on record'))
  } catch (error) {
    logger.error({ err: error }, 'models.json has faults: the models stay as they were')
  }
}

/** Tells clients to go elsewhere, and serves them meanwhile. @param time milliseconds for which it does */
function goOnDraining({ drain, log }: Parts, time: number, clock = machineClock): Promise<void> {
  drain.begin()
  if (time > 0) log.logger.info({ seconds: time / 1000 }, 'draining: /readyz is 503, and requests are still served')
  return new Promise((resolve) => void clock.setTimeout(resolve, time))
}

/**
 * Stops accepting, lets open replies end, and closes everything in the reverse order of opening.
 * @param graceMs milliseconds that replies which are still going on may take
 */
async function closeParts(parts: Parts, beside: Beside, graceMs: number): Promise<void> {
  const { app, stopReading, models, library, uses, tracer, guard, stores, lock, log } = parts
  clearTimeout(beside.reading)
  // Replies that are still going on after the grace are cut off, or closing would wait for the slowest client.
  const cutOff = setTimeout(() => app.server.closeAllConnections(), graceMs)
  // Clients keep a connection open after its last reply, and closing would wait for them.
  const hangUp = setInterval(() => app.server.closeIdleConnections(), 50)
  await app.close()
  clearTimeout(cutOff)
  clearInterval(hangUp)
  stopReading()
  await beside.metricsServer?.close()
  await models.close()
  await library.close()
  await tracer?.close()
  await guard.settle()
  await beside.stopPruning?.()
  await beside.stopPurging?.()
  await beside.stopNoting?.()
  await uses.flush()
  await stores.close()
  lock?.release()
  await log.close()
}

/** Loaded only where traces are wanted. */
async function openTracer(traces: Traces, proxies: Proxies, logger: Log['logger']): Promise<Tracer> {
  const { Tracer } = await import('./tracing/tracer.ts')
  return new Tracer({
    ...traces,
    proxies,
    onFailure: (error) => logger.warn({ err: error }, 'traces could not be sent'),
  })
}

/** Opens what needs the lock; where that fails, noAccount is left to hold it. */
async function openHeld<T>(open: () => Promise<T>, lock: ServeLock | undefined): Promise<T> {
  try {
    return await open()
  } catch (error) {
    lock?.release()
    throw error
  }
}
