import { join, resolve } from 'node:path'
import { type Limits, settingsLimits } from './limit-values.ts'
import { type Networks, parseNetworks } from './networks.ts'
import { type Proxies, readProxySettings } from './proxies.ts'

/** All settings of the operator, read once at start. Sizes are in bytes. The name of a time ends with its unit. */
export interface Config {
  readonly host: string
  readonly port: number
  /** The port on which `/metrics` is served without a key; undefined if the main port serves it. */
  readonly metricsPort: number | undefined
  /** Proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: Networks | undefined
  readonly dataDirectory: string
  /**
   * The service looks for `models.json`, `characters/` and `lorebooks/` in this folder, then in the data folder. The folder may
   * be read-only.
   */
  readonly configDirectory: string
  /** The SQLite file, used if `databaseUrl` is undefined. */
  readonly databasePath: string
  /** `postgres://…`. It may contain a password, so no log may show it. */
  readonly databaseUrl: string | undefined
  readonly bootstrapKey: string | undefined
  readonly upstream: Upstream | undefined
  /** The model that the id `default` stands for. If there is a `models.json`, this setting must not be set. */
  readonly defaultModel: string | undefined
  /** Whether `GET /models` lists the understudies that misbehave on purpose. */
  readonly listMisbehaving: 'on' | 'off'
  /** The proxies that requests to upstreams, and to other services of the operator, go through. */
  readonly proxies: Proxies
  readonly traces: Traces | undefined
  readonly logLevel: LogLevel
  readonly plantBodyLimit: number
  readonly chatBodyLimit: number
  readonly cardBodyLimit: number
  /** The most bytes that all large bodies and large replies together may hold in memory (`BytesInFlight`). */
  readonly maxInFlightBytes: number
  readonly requestTimeoutSeconds: number
  readonly readerTimeoutSeconds: number
  readonly shutdownGraceSeconds: number
  /** A stopping service still accepts requests for this time, while `/readyz` reports that the service stops. */
  readonly drainSeconds: number
  /** Seconds that a start waits for the database, or for the lock of the data folder. */
  readonly startTimeoutSeconds: number
  readonly sseKeepaliveMs: number
  /** The limits of every account for which the operator has set no other limits. */
  readonly limits: Limits
  readonly ledgerDays: number
  readonly auditDays: number
  /** The origins whose pages may call the service; only `*` means all origins. */
  readonly corsOrigins: readonly string[]
  /** Whether `/docs` and `/openapi.json` are served. */
  readonly docs: 'on' | 'off'
  /** Whether `GET /` is served. */
  readonly page: 'on' | 'off'
  readonly characters: 'open' | 'closed'
  /** Whether a card may choose the model of its character, for requests that name the default model. */
  readonly characterModels: 'on' | 'off'
  readonly systemPrompt: string | undefined
  readonly postHistoryPrompt: string | undefined
  readonly greeting: 'auto' | 'never'
  /** The values for each `${NAME}` in `models.json`. */
  readonly environment: Environment
}

/** The environment that the settings come from. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The OpenAI-compatible upstream of the settings `OPENAI_BASE_URL` and `OPENAI_API_KEY`. */
export interface Upstream {
  readonly baseUrl: string
  readonly apiKey: string | undefined
}

/** The receiver of traces, by OTLP over HTTP. */
export interface Traces {
  /** The full URL, with `/v1/traces`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly serviceName: string
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
type LogLevel = (typeof logLevels)[number]

/** An error of the settings. The message lists every fault, one per line. */
export class ConfigError extends Error {
  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.name = 'ConfigError'
  }
}

const minBootstrapKeyLength = 16
/** Matches a text that every HTTP header can carry: printable ASCII. */
export const fitsHeader = /^[\x20-\x7e]+$/

/** The data folder. No other setting is read, so the folder is known even if other settings have faults. */
export function dataDirectoryOf(environment: Environment): string {
  const text = textsOf(environment)
  return resolve(text('DATA_DIR') ?? 'data')
}

function textsOf(environment: Environment) {
  return (name: string): string | undefined => environment[name]?.trim() || undefined
}

/**
 * Reads the settings from the environment. An empty variable counts as not set.
 * @throws ConfigError that names all malformed settings
 */
export function readConfig(environment: Environment): Config {
  const faults: string[] = []

  const text = textsOf(environment)

  const integer = (name: string, fallback: number, minimum: number, maximum: number): number => {
    const value = text(name)
    if (value === undefined) return fallback
    const number = /^\d+$/.test(value) ? Number(value) : Number.NaN
    if (number >= minimum && number <= maximum) return number
    faults.push(`${name} is ${JSON.stringify(value)}; give a whole number from ${minimum} to ${maximum}.`)
    return fallback
  }

  const oneOf = <const T extends string>(name: string, fallback: T, allowed: readonly T[]): T => {
    const value = text(name)
    if (value === undefined) return fallback
    const match = allowed.find((candidate) => candidate === value.toLowerCase())
    if (match !== undefined) return match
    faults.push(`${name} is ${JSON.stringify(value)}; give one of ${allowed.join(', ')}.`)
    return fallback
  }

  const bootstrapKey = readBootstrapKey(text('BOOTSTRAP_KEY'), faults)
  const limits = settingsLimits(text('LIMITS'))
  if (typeof limits === 'string') faults.push(`LIMITS: ${limits}`)

  const dataDirectory = dataDirectoryOf(environment)
  const config: Config = {
    host: text('HOST') ?? '127.0.0.1',
    port: integer('PORT', 3000, 0, 65_535),
    metricsPort: text('METRICS_PORT') === undefined ? undefined : integer('METRICS_PORT', 0, 0, 65_535),
    trustedProxies: readProxies(text('TRUSTED_PROXIES'), faults),
    dataDirectory,
    configDirectory: resolve(text('CONFIG_DIR') ?? dataDirectory),
    databasePath: join(dataDirectory, 'conservatory.db'),
    databaseUrl: readDatabaseUrl(text('DATABASE_URL'), faults),
    bootstrapKey,
    upstream: readUpstream(text('OPENAI_BASE_URL'), text('OPENAI_API_KEY'), faults),
    defaultModel: text('DEFAULT_MODEL'),
    listMisbehaving: oneOf('LIST_MISBEHAVING', 'off', ['on', 'off']),
    proxies: readOutboundProxies(text, faults),
    traces: readTraces(text, faults),
    logLevel: oneOf('LOG_LEVEL', 'info', logLevels),
    plantBodyLimit: integer('PLANT_BODY_LIMIT', 1024 ** 2, 1, 1024 ** 3),
    chatBodyLimit: integer('CHAT_BODY_LIMIT', 8 * 1024 ** 2, 1, 1024 ** 3),
    cardBodyLimit: integer('CARD_BODY_LIMIT', 16 * 1024 ** 2, 1, 64 * 1024 ** 2),
    maxInFlightBytes: integer('MAX_IN_FLIGHT_BYTES', 0, 1, 1024 ** 4),
    requestTimeoutSeconds: integer('REQUEST_TIMEOUT', 60, 1, 3600),
    readerTimeoutSeconds: integer('READER_TIMEOUT', 30, 1, 3600),
    shutdownGraceSeconds: integer('SHUTDOWN_GRACE', 10, 0, 3600),
    drainSeconds: integer('DRAIN_SECONDS', 0, 0, 3600),
    startTimeoutSeconds: integer('START_TIMEOUT', 0, 0, 3600),
    sseKeepaliveMs: integer('SSE_KEEPALIVE_MS', 15_000, 10, 3_600_000),
    limits: typeof limits === 'string' ? {} : limits,
    ledgerDays: integer('LEDGER_DAYS', 30, 1, 3650),
    auditDays: integer('AUDIT_DAYS', 365, 1, 3650),
    corsOrigins: readOrigins(text('CORS_ORIGINS'), faults),
    docs: oneOf('DOCS', 'on', ['on', 'off']),
    page: oneOf('PAGE', 'on', ['on', 'off']),
    characters: oneOf('CHARACTERS', 'open', ['open', 'closed']),
    characterModels: oneOf('CHARACTER_MODELS', 'off', ['on', 'off']),
    systemPrompt: text('SYSTEM_PROMPT'),
    postHistoryPrompt: text('POST_HISTORY_PROMPT'),
    greeting: oneOf('GREETING', 'auto', ['auto', 'never']),
    environment,
  }
  const maxInFlightBytes = inFlightBound(config, faults)
  if (faults.length > 0) throw new ConfigError(faults)
  return Object.freeze({ ...config, maxInFlightBytes })
}

function readBootstrapKey(key: string | undefined, faults: string[]): string | undefined {
  if (key !== undefined && !fitsHeader.test(key)) {
    faults.push('BOOTSTRAP_KEY has characters that an HTTP header cannot carry; use only printable ASCII.')
  } else if (key !== undefined && key.length < minBootstrapKeyLength) {
    faults.push(`BOOTSTRAP_KEY is too short; give at least ${minBootstrapKeyLength} characters.`)
  }
  return key
}

/** MAX_IN_FLIGHT_BYTES or its default. One account may use half of the bytes, and the largest body must fit into that half. */
function inFlightBound(config: Config, faults: string[]): number {
  const { maxInFlightBytes, plantBodyLimit, chatBodyLimit, cardBodyLimit } = config
  const minBytes = 2 * Math.max(plantBodyLimit, chatBodyLimit, cardBodyLimit)
  if (maxInFlightBytes === 0) return Math.max(128 * 1024 ** 2, minBytes)
  if (maxInFlightBytes < minBytes) {
    faults.push(`MAX_IN_FLIGHT_BYTES is ${maxInFlightBytes}; give at least ${minBytes}, twice the largest body limit.`)
  }
  return maxInFlightBytes
}

function readUpstream(baseUrl: string | undefined, apiKey: string | undefined, faults: string[]): Upstream | undefined {
  if (baseUrl === undefined && apiKey === undefined) return undefined
  if (apiKey !== undefined && !fitsHeader.test(apiKey)) {
    faults.push('OPENAI_API_KEY has characters that an HTTP header cannot carry; use only printable ASCII.')
  }
  const url = plainAddress(baseUrl ?? 'https://api.openai.com/v1')
  if (url === undefined) {
    faults.push('OPENAI_BASE_URL is not a plain http:// or https:// address such as https://api.openai.com/v1.')
    return undefined
  }
  return { baseUrl: url, apiKey }
}

/**
 * The URL without slashes at its end. Undefined for a URL with a fragment, a user name or a password, or without http(s).
 * @param mayHaveQuery whether the URL may have a query
 */
export function plainAddress(text: string, mayHaveQuery = false): string | undefined {
  const url = URL.parse(text)
  const isPlain = url !== null && url.href === `${url.origin}${url.pathname}${mayHaveQuery ? url.search : ''}`
  return isPlain && ['http:', 'https:'].includes(url.protocol) ? url.href.replace(/(?<!\/)\/*$/, '') : undefined
}

function readProxies(written: string | undefined, faults: string[]): Networks | undefined {
  const networks = written === undefined ? undefined : parseNetworks(written)
  if (typeof networks !== 'string') return networks
  faults.push(`TRUSTED_PROXIES ${networks}.`)
  return undefined
}

/** A name in lower case has precedence over the same name in upper case: some programs read only lower case. */
function readOutboundProxies(text: (name: string) => string | undefined, faults: string[]): Proxies {
  const written = {
    HTTP_PROXY: text('http_proxy') ?? text('HTTP_PROXY'),
    HTTPS_PROXY: text('https_proxy') ?? text('HTTPS_PROXY'),
    NO_PROXY: text('no_proxy') ?? text('NO_PROXY'),
  }
  return readProxySettings(written, (name, problem) => faults.push(`${name} ${problem}.`))
}

/** An origin is a scheme, a host, and a port if it is not the default (RFC 6454, section 6.2), as browsers write it. */
function readOrigins(written: string | undefined, faults: string[]): readonly string[] {
  const origins = (written?.split(',') ?? []).map((origin) => origin.trim()).filter((origin) => origin !== '')
  if (origins.includes('*')) {
    if (origins.length > 1) faults.push('CORS_ORIGINS has * beside others; give * alone, or a list without it.')
    return origins
  }
  for (const origin of origins) {
    const url = URL.parse(origin)
    const isHttp = /^https?:/i.test(origin)
    const isOrigin = isHttp ? url?.origin === origin : /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#]+$/.test(origin)
    if (isOrigin) continue
    const advice = url && isHttp ? `give ${url.origin}` : 'give a scheme and a host, such as https://a.example'
    faults.push(`CORS_ORIGINS has ${JSON.stringify(origin)}, which is not an origin; ${advice}.`)
  }
  return origins
}

/** Checks the URL by a pattern: PostgreSQL allows several hosts in one URL, but Node's `URL` does not parse them. */
function readDatabaseUrl(url: string | undefined, faults: string[]): string | undefined {
  const [, attributes = 'primary'] = /[?&]target_session_attrs=([^&#]*)/.exec(url ?? '') ?? []
  if (!['primary', 'read-write'].includes(attributes)) {
    faults.push('DATABASE_URL has a target_session_attrs that is neither read-write nor primary: writes would fail.')
  }
  if (url === undefined || /^postgres(ql)?:\/\/[^/?#]+\/[^/?#]+/.test(url)) return url
  // The message does not quote the value, which may have a password.
  faults.push('DATABASE_URL is not an address such as postgres://name:password@host:5432/database.')
  return undefined
}

function readTraces(text: (name: string) => string | undefined, faults: string[]): Traces | undefined {
  const endpoint = text('OTEL_EXPORTER_OTLP_ENDPOINT')
  const serviceName = text('OTEL_SERVICE_NAME') ?? 'conservatory'
  const read = readPairs(text('OTEL_EXPORTER_OTLP_HEADERS'))
  if (read === undefined) {
    faults.push('OTEL_EXPORTER_OTLP_HEADERS is not understood; give NAME=VALUE, more than one with commas between.')
  }
  if (endpoint === undefined) return undefined
  const url = plainAddress(endpoint)
  if (url === undefined) {
    faults.push('OTEL_EXPORTER_OTLP_ENDPOINT is not a plain http:// or https:// address such as http://127.0.0.1:4318.')
    return undefined
  }
  return { url: `${url}/v1/traces`, headers: read ?? {}, serviceName }
}

/** Reads headers in the format of OpenTelemetry's settings, with percent-encoded values; undefined if they are malformed. */
function readPairs(text: string | undefined): Record<string, string> | undefined {
  const found: [name: string, value: string][] = []
  for (const pair of text?.split(',') ?? []) {
    const [, name, value = ''] = /^([\w-]+)\s*=\s*((?:[!-~][ -~]*)?)$/.exec(pair.trim()) ?? []
    if (name === undefined) return undefined
    try {
      const decoded = decodeURIComponent(value)
      if (decoded !== '' && !fitsHeader.test(decoded)) return undefined
      found.push([name, decoded])
    } catch {
      return undefined
    }
  }
  return Object.fromEntries(found)
}
