import type { FastifyInstance } from 'fastify'
import { type Bootstrap, bootstrapAccess } from './access/bootstrap.ts'
import { Guard } from './access/guard.ts'
import { createServer, registerService } from './app.ts'
import { type Actor, globalEntry, serviceActor } from './audit/record.ts'
import { leftEvents } from './care/events.ts'
import { CharacterUses } from './characters/character-uses.ts'
import { type CharacterLibrary, createLibrary } from './characters/library/library.ts'
import { notePictures } from './characters/picture-notes.ts'
import { uploadTtlSeconds } from './characters/pieces.ts'
import { promptSettings } from './characters/prompt/composition.ts'
import { purgeVersions } from './characters/purge.ts'
import { type Clock, machineClock } from './clock.ts'
import type { Config, Traces } from './config.ts'
import { BytesInFlight } from './http/bytes-in-flight.ts'
import { Drain } from './http/drain.ts'
import type { LoopMonitor } from './http/pressure.ts'
import { limitWarnings } from './limits/key-limits.ts'
import type { Limiter } from './limits/limiter.ts'
import { type Log, openLog } from './log.ts'
import { readManifest } from './manifest.ts'
import { countAttempts, Metrics } from './metrics/metrics.ts'
import { addPartMetrics } from './metrics/parts.ts'
import { type MetricsServer, serveMetrics } from './metrics/plugin.ts'
import { loadModels } from './models/configuration/configuration.ts'
import type { ModelsConfiguration } from './models/configuration/model-settings.ts'
import { ModelRegistry } from './models/registry.ts'
import { photoTtlSeconds } from './plants/photos.ts'
import { keyLifetimeSeconds } from './plants/policy.ts'
import { printNotice } from './print.ts'
import type { Proxies } from './proxies.ts'
import { Damage, damageSentence } from './storage/damage.ts'
import { prepareFolder } from './storage/data-folder.ts'
import { type FileLock, lockForServing } from './storage/file-lock.ts'
import { type Prunable, pruneOld, type Retention } from './storage/prune.ts'
import { retryAtStart } from './storage/start-wait.ts'
import { databaseFacts, openStores, watchForDamage } from './stores/open.ts'
import type { Stores } from './stores/stores.ts'
import { unixSeconds } from './time.ts'
import type { Tracer } from './tracing/tracer.ts'
import { Metering } from './usage/metered-request.ts'
import { defaultBytesOfThread, WorkerPool } from './work/pool.ts'
import { noAccount, Works } from './work/work.ts'

/** The running service. */
export interface Service {
  /** The URL of the service, such as `http://127.0.0.1:3000`. */
  readonly address: string
  /** The URL of the metrics, if they have a port of their own. */
  readonly metricsAddress: string | undefined
  readonly bootstrap: Bootstrap
  /** Sentences for the operator about keys with limits above those of their accounts. */
  readonly limitWarnings: readonly string[]
  /**
   * Reads `models.json` and the character folders again. If a file has faults, the service keeps the old version, and the log
   * reports the faults.
   */
  reload(): Promise<void>
  /**
   * Serves requests for another DRAIN_SECONDS. Meanwhile `/readyz` answers 503, and each reply closes its connection.
   * @param signal the signal that stops the service, for the log
   */
  drain(signal?: string): Promise<void>
  /**
   * Stops accepting connections, lets open replies end within the grace period, and closes all parts. The database is closed
   * last.
   */
  close(): Promise<void>
}

/** Sources of time. A test replaces them, so that the test does not depend on the speed of the machine. */
export interface TimeSources {
  /**
   * The clock of models' timeouts and retries, circuit breakers, keep-alives of streams, delays after failed logins, and the
   * drain.
   */
  readonly clock?: Clock
  /** The event-loop measurements that load shedding uses. */
  readonly loop?: LoopMonitor
}

const readCharactersAfterMs = 500

/**
 * The interval of five tasks: removing expired idempotency keys, removing pieces of cards that no version uses, removing pieces of
 * photos that no plant has, removing events of deleted plants, and adding requests to the daily usage.
 */
const cleanupIntervalMs = 10_000
const secondsPerDay = 86_400

interface Parts {
  readonly log: Log
  /** The service as the actor of audit records. */
  readonly itself: Actor
  /** The lock of the data folder. Undefined with PostgreSQL, because replicas may share the folder. */
  readonly lock: FileLock | undefined
  readonly stores: Stores
  readonly damage: Damage
  readonly metrics: Metrics
  readonly inFlight: BytesInFlight
  readonly drain: Drain
  readonly tracer: Tracer | undefined
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly uses: CharacterUses
  readonly pool: WorkerPool
  readonly works: Works
  readonly guard: Guard
  readonly limiter: Limiter
  readonly metering: Metering
  readonly app: FastifyInstance
  /** Stops the measurement of the event loop's delay. */
  readonly stopReading: () => void
}

/** The background tasks that have begun. */
interface BackgroundTasks {
  metricsServer?: MetricsServer
  /** The timer of the first reading of the characters. */
  reading?: NodeJS.Timeout
  stopPruning?: () => Promise<unknown>
  stopPurging?: () => Promise<void>
  stopNoting?: () => Promise<void>
}

/**
 * Opens everything that the service needs, and listens.
 * @throws ConfigError for faults of `models.json`, StorageError, or Node's error for a port that cannot be opened; then the
 *   parts are closed again
 */
export async function startService(config: Config, { clock, loop }: TimeSources = {}): Promise<Service> {
  const parts = await openParts(config, clock)
  const { stores, app, log } = parts
  const tasks: BackgroundTasks = {}
  const close = () => closeParts(parts, tasks, config.shutdownGraceSeconds * 1000)
  try {
    // The ledger may have requests that a dead process has left as running. With SQLite no other process can run, because this
    // process has the lock of the folder. With PostgreSQL the ledger does not change the requests of replicas that still run.
    await stores.ledger.interruptRunning()
    await registerService(app, { ...parts, config, prompt: promptSettings(config), logger: log.logger, clock, loop })
    const address = await app.listen({ host: config.host, port: config.port })
    await startBackgroundTasks(tasks, parts, config)
    const warnings = limitWarnings(await stores.access.listKeys(), config.limits)
    // The first key is shown only once. So it is made last, when the start can hardly fail any more.
    const bootstrap = await bootstrapAccess(stores.access, config.bootstrapKey, parts.itself)
    for (const warning of bootstrap.warnings) log.logger.warn(warning)
    stores.beginServing?.()
    const metricsAddress = tasks.metricsServer?.address
    const drain = (signal?: string) => drainFor(parts, config.drainSeconds * 1000, signal, clock)
    const ways = { reload: () => reload(parts, config), drain, close }
    return { address, metricsAddress, bootstrap, limitWarnings: warnings, ...ways }
  } catch (error) {
    await close()
    throw error
  }
}

async function openParts(config: Config, clock: Clock | undefined): Promise<Parts> {
  const configuration = await loadModels(config)
  const log = openLog(config.logLevel)
  const { logger } = log
  logStart(logger, config, configuration)
  const itself = serviceActor((record) => logger.info(record, 'audit record'))
  prepareFolder(config.dataDirectory)
  // Replicas with one PostgreSQL may share a data folder, so only SQLite needs the lock.
  const opening = retryAtStart(config.startTimeoutSeconds, printNotice)
  const lock = config.databaseUrl === undefined ? await opening(() => lockForServing(config.dataDirectory)) : undefined
  const damage = new Damage((error) => logger.error({ err: error }, damageSentence))
  const opened = await openLocked(() => opening(() => openStores(config, itself)), lock)
  const stores = watchForDamage(opened, damage)
  const metrics = new Metrics()
  const tracer = config.traces && (await openTracer(config.traces, config.proxies, logger))
  const models = new ModelRegistry(configuration, config, countAttempts(metrics, tracer?.watchAttempt), clock)
  const uses = new CharacterUses(stores.characters)
  const inFlight = new BytesInFlight(config.maxInFlightBytes)
  const pool = new WorkerPool({
    // Texts outside of Latin-1 take up to 13 times the bytes of a card while it is parsed and written.
    maxBytes: Math.max(defaultBytesOfThread, 13 * config.cardBodyLimit),
    onFault: ({ error, ...fault }) => logger.warn({ ...fault, err: error }, 'large work of a request was ended'),
  })
  const works = new Works(pool)
  const library = createLibrary(config, stores.characters, {
    logger,
    onUse: (version) => uses.note(version),
    during: inFlight.during,
    workOf: (account) => works.workOf({ account: account ?? noAccount }),
  })
  const limiter = stores.limiter(config.limits)
  const guard = new Guard(stores.access, limiter, clock)
  const metering = new Metering({
    limiter,
    ledger: stores.ledger,
    watch: metrics,
    onFailure: (request_id, error) =>
      logger.error({ request_id, err: error }, 'the end of a request is not yet in the database'),
  })
  const drain = new Drain()
  const app = createServer(logger, config, drain)
  const stopReading = addPartMetrics(metrics, { stores, models, limiter, inFlight, pool })
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
    pool,
    works,
  }
  return { ...parts, guard, limiter, metering, app, stopReading }
}

/** Writes the first line of the log: what starts, over which database, and with which models. */
function logStart(logger: Log['logger'], config: Config, configuration: ModelsConfiguration): void {
  const { version } = readManifest()
  const models = { models: [...configuration.models.keys()], default_model: configuration.default ?? null }
  logger.info({ version, ...databaseFacts(config), ...models }, 'Conservatory starts')
}

/**
 * Starts the background tasks, and adds them to `tasks`.
 * @throws Error with one sentence when the port of the metrics cannot be opened
 */
async function startBackgroundTasks(tasks: BackgroundTasks, parts: Parts, config: Config): Promise<void> {
  const { stores, library, uses, metrics } = parts
  const { logger } = parts.log
  if (config.metricsPort !== undefined) {
    tasks.metricsServer = await serveMetrics(metrics, config.host, config.metricsPort)
  }
  // The start does not wait for the characters. Either the first use or this timer reads them. The timer also logs their faults.
  const follow = async (): Promise<void> => {
    await library.load()
    library.watch()
  }
  tasks.reading = setTimeout(() => {
    follow().catch((error: unknown) => logger.error({ err: error }, 'the characters cannot be read'))
  }, readCharactersAfterMs)
  const oldKeys = { prune: stores.plants.removeExpiredKeys.bind(stores.plants) }
  const leftovers = { prune: stores.characters.removeLeftovers.bind(stores.characters) }
  const unsummed = { prune: (_before: number, most: number) => stores.ledger.addToDaySums(most) }
  const prunings: readonly [Prunable, Retention, string][] = [
    [stores.ledger, { keptSeconds: config.ledgerDays * secondsPerDay }, 'old entries of the ledger were not removed'],
    [
      stores.audit,
      { keptSeconds: config.auditDays * secondsPerDay },
      'old records of the audit trail were not removed',
    ],
    [
      stores.access,
      { keptSeconds: config.ledgerDays * secondsPerDay },
      'keys that have ended long ago were not removed',
    ],
    [
      oldKeys,
      { keptSeconds: keyLifetimeSeconds, intervalMs: cleanupIntervalMs },
      'expired idempotency keys were not removed',
    ],
    [
      leftovers,
      { keptSeconds: uploadTtlSeconds, intervalMs: cleanupIntervalMs },
      'pieces of cards that are gone were not removed',
    ],
    [
      stores.photos,
      { keptSeconds: photoTtlSeconds, intervalMs: cleanupIntervalMs },
      'pieces of photos that are gone were not removed',
    ],
    [
      leftEvents(stores.scripts),
      { keptSeconds: 0, intervalMs: cleanupIntervalMs },
      'events of deleted plants were not removed',
    ],
    [unsummed, { keptSeconds: 0, intervalMs: cleanupIntervalMs }, 'requests were not added to the usage of their days'],
  ]
  const stops = prunings.map(([store, keeping, failure]) =>
    pruneOld(store, keeping, (error) => logger.error({ err: error }, failure)),
  )
  tasks.stopPruning = () => Promise.all(stops.map((stop) => stop()))
  tasks.stopPurging = purgeVersions({
    store: stores.characters,
    uses,
    clock: machineClock,
    now: unixSeconds,
    by: parts.itself,
    onRemoved: (versions) => logger.info({ versions }, 'old versions of characters were removed'),
    onFailure: (error) => logger.error({ err: error }, 'old versions of characters were not removed'),
  })
  tasks.stopNoting = notePictures({
    store: stores.characters,
    clock: machineClock,
    workOf: (account) => parts.works.workOf({ account }),
    during: parts.inFlight.during,
    onFailure: (error) => logger.error({ err: error }, 'it was not recorded which uploads have a picture'),
  })
}

/** Reads the characters and `models.json` again. If a file has faults, the old version stays. */
async function reload({ log, itself, stores, library, models }: Parts, config: Config): Promise<void> {
  const { logger } = log
  await library.load().catch((error: unknown) => logger.error({ err: error }, 'the characters cannot be read again'))
  try {
    const before = { models: models.names }
    await models.replace(await loadModels(config))
    logger.info('the models have been read again')
    const entry = globalEntry('models.reloaded', before, { models: models.names })
    await stores.audit
      .record(itself, entry)
      .catch((error: unknown) => logger.error({ err: error }, 'the audit trail has no record of this reload'))
  } catch (error) {
    logger.error({ err: error }, 'the models cannot be read again: they stay as they were')
  }
}

/** Tells clients and load balancers that the service stops, and still serves requests. Resolves after `drainMs`. */
function drainFor({ drain, log }: Parts, drainMs: number, signal?: string, clock = machineClock): Promise<void> {
  drain.begin()
  log.logger.info({ signal, seconds: drainMs / 1000 }, 'the service stops: it drains for these seconds')
  return new Promise((resolve) => void clock.setTimeout(resolve, drainMs))
}

/**
 * Stops accepting connections, lets open replies end, and closes all parts. A part is closed before the parts that it uses.
 * @param graceMs milliseconds that open replies may take
 */
async function closeParts(parts: Parts, tasks: BackgroundTasks, graceMs: number): Promise<void> {
  const { app, pool, stopReading, models, library, uses, tracer, guard, stores, lock, log } = parts
  clearTimeout(tasks.reading)
  // After the grace period, open replies are cut off. Otherwise `app.close` would wait for the slowest client.
  const cutOff = setTimeout(() => app.server.closeAllConnections(), graceMs)
  // Idle connections are closed again and again. Otherwise `app.close` would wait for clients that keep connections open.
  const hangUp = setInterval(() => app.server.closeIdleConnections(), 50)
  await app.close()
  clearTimeout(cutOff)
  clearInterval(hangUp)
  await pool.close()
  stopReading()
  await tasks.metricsServer?.close()
  await models.close()
  await library.close()
  await tracer?.close()
  await guard.settle()
  await tasks.stopPruning?.()
  await tasks.stopPurging?.()
  await tasks.stopNoting?.()
  await uses.flush()
  await stores.close()
  lock?.release()
  await log.close()
}

/** Opens the tracer. Its module is loaded only if traces are on. */
async function openTracer(traces: Traces, proxies: Proxies, logger: Log['logger']): Promise<Tracer> {
  const { Tracer } = await import('./tracing/tracer.ts')
  return new Tracer({
    ...traces,
    proxies,
    onFailure: (error) => logger.warn({ err: error }, 'traces could not be sent'),
  })
}

/** Opens a part that needs the lock. If this fails, the lock is released. */
async function openLocked<T>(open: () => Promise<T>, lock: FileLock | undefined): Promise<T> {
  try {
    return await open()
  } catch (error) {
    lock?.release()
    throw error
  }
}
