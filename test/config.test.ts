import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ConfigError, readConfig } from '../src/config.ts'
import { noProxies } from '../src/proxies.ts'

function faultsOf(environment: Readonly<Record<string, string>>): readonly string[] {
  try {
    readConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n')
    throw error
  }
  return []
}

describe('the settings', () => {
  it('have the documented defaults', () => {
    expect(readConfig({})).toStrictEqual({
      host: '127.0.0.1',
      port: 3000,
      metricsPort: undefined,
      trustedProxies: undefined,
      dataDirectory: resolve('data'),
      databaseUrl: undefined,
      databasePath: resolve('data', 'conservatory.db'),
      configDirectory: resolve('data'),
      environment: {},
      bootstrapKey: undefined,
      upstream: undefined,
      proxies: noProxies,
      traces: undefined,
      logLevel: 'info',
      plantBodyLimit: 1_048_576,
      chatBodyLimit: 8_388_608,
      cardBodyLimit: 16_777_216,
      maxInFlightBytes: 134_217_728,
      requestTimeoutSeconds: 60,
      readerTimeoutSeconds: 30,
      shutdownGraceSeconds: 10,
      drainSeconds: 0,
      startTimeoutSeconds: 0,
      sseKeepaliveMs: 15_000,
      defaultModel: undefined,
      listMisbehaving: 'off',
      corsOrigins: [],
      docs: 'on',
      page: 'on',
      characters: 'open',
      characterModels: 'off',
      systemPrompt: undefined,
      postHistoryPrompt: undefined,
      greeting: 'auto',
      limits: {
        photo_bytes: 1_073_741_824,
        characters: 1000,
        character_bytes: 1_073_741_824,
        keys: 1000,
        changes_per_day: 10_000,
        events: 1_000_000,
      },
      ledgerDays: 30,
      auditDays: 365,
    })
  })

  it('count as not set when empty or blank', () => {
    const names = [
      'HOST',
      'PORT',
      'DATA_DIR',
      'CONFIG_DIR',
      'BOOTSTRAP_KEY',
      'HTTP_PROXY',
      'https_proxy',
      'NO_PROXY',
      'OPENAI_BASE_URL',
      'OPENAI_API_KEY',
      'LOG_LEVEL',
    ]
    const more = [
      'PLANT_BODY_LIMIT',
      'CHAT_BODY_LIMIT',
      'CARD_BODY_LIMIT',
      'MAX_IN_FLIGHT_BYTES',
      'REQUEST_TIMEOUT',
      'READER_TIMEOUT',
      'SHUTDOWN_GRACE',
      'DRAIN_SECONDS',
      'START_TIMEOUT',
      'SSE_KEEPALIVE_MS',
      'CHARACTERS',
      'CHARACTER_MODELS',
      'SYSTEM_PROMPT',
      'POST_HISTORY_PROMPT',
      'GREETING',
      'LIMITS',
      'LEDGER_DAYS',
      'DOCS',
      'METRICS_PORT',
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'OTEL_EXPORTER_OTLP_HEADERS',
      'OTEL_SERVICE_NAME',
    ]
    const environment = Object.fromEntries([...names, ...more].map((name, index) => [name, index % 2 ? '' : ' \t ']))
    expect({ ...readConfig(environment), environment: {} }).toStrictEqual(readConfig({}))
  })

  it('cannot be changed once they are read, and variables of other programs are ignored', () => {
    const config = readConfig({ PATH: '/bin', NODE_ENV: 'test', HOME: '', PORTS: 'many' })
    expect(Object.isFrozen(config)).toBe(true)
    expect({ ...config, environment: {} }).toStrictEqual(readConfig({}))
  })

  it.for([
    ['HOST', '0.0.0.0', { host: '0.0.0.0' }],
    ['HOST', ' ::1 ', { host: '::1' }],
    ['PORT', '0', { port: 0 }],
    ['PORT', ' 65535 ', { port: 65535 }],
    ['METRICS_PORT', '9464', { metricsPort: 9464 }],
    [
      'DATA_DIR',
      '/srv/conservatory',
      { dataDirectory: resolve('/srv/conservatory'), configDirectory: resolve('/srv/conservatory') },
    ],
    ['CONFIG_DIR', 'config', { configDirectory: resolve('config'), dataDirectory: resolve('data') }],
    ['DATA_DIR', 'below/here', { databasePath: join(resolve('below/here'), 'conservatory.db') }],
    ['DATABASE_URL', 'postgres://me:secret@a:1,b:2/garden', { databaseUrl: 'postgres://me:secret@a:1,b:2/garden' }],
    ['BOOTSTRAP_KEY', 'sixteen letters!', { bootstrapKey: 'sixteen letters!' }],
    ['LOG_LEVEL', 'WARN', { logLevel: 'warn' }],
    ['LOG_LEVEL', 'silent', { logLevel: 'silent' }],
    ['PLANT_BODY_LIMIT', '1', { plantBodyLimit: 1 }],
    ['CHAT_BODY_LIMIT', '1073741824', { chatBodyLimit: 1024 ** 3 }],
    ['CARD_BODY_LIMIT', '1', { cardBodyLimit: 1 }],
    ['MAX_IN_FLIGHT_BYTES', '134217728', { maxInFlightBytes: 128 * 1024 ** 2 }],
    ['CHAT_BODY_LIMIT', '100000000', { maxInFlightBytes: 200_000_000 }],
    ['REQUEST_TIMEOUT', '1', { requestTimeoutSeconds: 1 }],
    ['READER_TIMEOUT', '3600', { readerTimeoutSeconds: 3600 }],
    ['SHUTDOWN_GRACE', '0', { shutdownGraceSeconds: 0 }],
    ['DRAIN_SECONDS', '5', { drainSeconds: 5 }],
    ['START_TIMEOUT', '60', { startTimeoutSeconds: 60 }],
    ['SSE_KEEPALIVE_MS', '10', { sseKeepaliveMs: 10 }],
    ['CHARACTERS', 'Closed', { characters: 'closed' }],
    ['CHARACTER_MODELS', 'ON', { characterModels: 'on' }],
    ['SYSTEM_PROMPT', 'You are {{char}}.', { systemPrompt: 'You are {{char}}.' }],
    ['POST_HISTORY_PROMPT', 'Stay {{char}}.', { postHistoryPrompt: 'Stay {{char}}.' }],
    ['GREETING', 'Never', { greeting: 'never' }],
    ['LIMITS', 'chat_at_once=0, tokens_per_day=5', { limits: { chat_at_once: 0, tokens_per_day: 5 } }],
    ['LEDGER_DAYS', '1', { ledgerDays: 1 }],
    ['AUDIT_DAYS', '3650', { auditDays: 3650 }],
    [
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'http://collector:4318/',
      { traces: { url: 'http://collector:4318/v1/traces', headers: {}, serviceName: 'conservatory' } },
    ],
    ['OPENAI_API_KEY', 'sk-1', { upstream: { baseUrl: 'https://api.openai.com/v1', apiKey: 'sk-1' } }],
    [
      'OPENAI_BASE_URL',
      'http://ollama:11434/v1//',
      { upstream: { baseUrl: 'http://ollama:11434/v1', apiKey: undefined } },
    ],
  ] as const)('%s=%s is understood', ([name, value, expected]) => {
    expect(readConfig({ [name]: value })).toMatchObject(expected)
  })

  it.for([
    [
      'DATABASE_URL',
      'mysql://me:secret@host/garden',
      'DATABASE_URL is not an address such as postgres://name:password@host:5432/database.',
    ],
    ['PORT', '65536', 'PORT is "65536"; give a whole number from 0 to 65535.'],
    ['METRICS_PORT', '70000', 'METRICS_PORT is "70000"; give a whole number from 0 to 65535.'],
    ['PORT', '-1', 'PORT is "-1"; give a whole number from 0 to 65535.'],
    ['PORT', '3000.5', 'PORT is "3000.5"; give a whole number from 0 to 65535.'],
    ['PORT', '0x50', 'PORT is "0x50"; give a whole number from 0 to 65535.'],
    ['PORT', '1e3', 'PORT is "1e3"; give a whole number from 0 to 65535.'],
    ['PORT', '80 443', 'PORT is "80 443"; give a whole number from 0 to 65535.'],
    ['PORT', '٣٠٠٠', 'PORT is "٣٠٠٠"; give a whole number from 0 to 65535.'],
    ['PLANT_BODY_LIMIT', '0', 'PLANT_BODY_LIMIT is "0"; give a whole number from 1 to 1073741824.'],
    ['CHAT_BODY_LIMIT', '8 MiB', 'CHAT_BODY_LIMIT is "8 MiB"; give a whole number from 1 to 1073741824.'],
    ['CARD_BODY_LIMIT', '0', 'CARD_BODY_LIMIT is "0"; give a whole number from 1 to 67108864.'],
    [
      'MAX_IN_FLIGHT_BYTES',
      '33554431',
      'MAX_IN_FLIGHT_BYTES is 33554431; give at least 33554432, twice the largest body limit.',
    ],
    ['MAX_IN_FLIGHT_BYTES', '0', 'MAX_IN_FLIGHT_BYTES is "0"; give a whole number from 1 to 1099511627776.'],
    ['REQUEST_TIMEOUT', '0', 'REQUEST_TIMEOUT is "0"; give a whole number from 1 to 3600.'],
    ['READER_TIMEOUT', '0', 'READER_TIMEOUT is "0"; give a whole number from 1 to 3600.'],
    ['SHUTDOWN_GRACE', '3601', 'SHUTDOWN_GRACE is "3601"; give a whole number from 0 to 3600.'],
    ['DRAIN_SECONDS', '-1', 'DRAIN_SECONDS is "-1"; give a whole number from 0 to 3600.'],
    ['START_TIMEOUT', '0.5', 'START_TIMEOUT is "0.5"; give a whole number from 0 to 3600.'],
    ['SSE_KEEPALIVE_MS', '9', 'SSE_KEEPALIVE_MS is "9"; give a whole number from 10 to 3600000.'],
    ['LOG_LEVEL', 'verbose', 'LOG_LEVEL is "verbose"; give one of trace, debug, info, warn, error, fatal, silent.'],
    ['GREETING', 'always', 'GREETING is "always"; give one of auto, never.'],
    ['LIMITS', 'plants=1,plants=2', 'LIMITS: The limit plants is given twice. Give it once.'],
    ['LEDGER_DAYS', '0', 'LEDGER_DAYS is "0"; give a whole number from 1 to 3650.'],
    ['CHARACTER_MODELS', 'yes', 'CHARACTER_MODELS is "yes"; give one of on, off.'],
    ['CHARACTERS', 'ajar', 'CHARACTERS is "ajar"; give one of open, closed.'],
    ['BOOTSTRAP_KEY', 'fifteen letters', 'BOOTSTRAP_KEY is too short; give at least 16 characters.'],
  ] as const)('%s=%s is one fault', ([name, value, expected]) => {
    expect(faultsOf({ [name]: value })).toStrictEqual([expected])
  })

  it.for([
    ['BOOTSTRAP_KEY', 'CANARY with an accénted letter'],
    ['BOOTSTRAP_KEY', 'CANARY with\na line break'],
    ['OPENAI_API_KEY', 'sk-CANARY\nwith a line break'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'CANARY:4318'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'CANARY'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=%CANARY'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=CANARY%0d%0ab'],
    ['DATABASE_URL', 'postgres://one:CANARY@host/plants?target_session_attrs=any'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://user:CANARY@collector:4318'],
    ['OPENAI_BASE_URL', 'CANARY.example.com/v1'],
    ['OPENAI_BASE_URL', 'CANARY:11434'],
    ['OPENAI_BASE_URL', 'file:///etc/CANARY'],
    ['OPENAI_BASE_URL', 'https://user:CANARY@api.openai.com/v1'],
    ['OPENAI_BASE_URL', 'https://:CANARY@api.openai.com/v1'],
    ['OPENAI_BASE_URL', 'https://api.openai.com/v1?key=CANARY'],
    ['OPENAI_BASE_URL', 'https://api.openai.com/v1#CANARY'],
  ] as const)('%s=%j is one fault that does not repeat the value', ([name, value]) => {
    const faults = faultsOf({ [name]: value })
    expect(faults).toHaveLength(1)
    expect(faults[0]).toMatch(new RegExp(`^${name} .*\\.$`))
    expect(faults[0]).not.toContain('CANARY')
  })

  it('may be headers with many blanks', () => {
    // The time must be linear: an earlier pattern needed minutes for this text.
    const blanks = ' '.repeat(9000)
    expect(faultsOf({ OTEL_EXPORTER_OTLP_HEADERS: `a=${blanks}=${blanks}é` })).toHaveLength(1)
    expect(faultsOf({ OTEL_EXPORTER_OTLP_HEADERS: `${blanks}a${blanks}=${blanks}b${blanks}` })).toHaveLength(0)
  })

  it('that are malformed are all reported together, each with its name', () => {
    const wrong = {
      PORT: 'x',
      BOOTSTRAP_KEY: 'short',
      OPENAI_BASE_URL: 'nowhere',
      LOG_LEVEL: 'loud',
      PLANT_BODY_LIMIT: '-5',
      CHAT_BODY_LIMIT: 'big',
      SHUTDOWN_GRACE: '1.5',
      SSE_KEEPALIVE_MS: '0',
      CHARACTERS: 'some',
    }
    const faults = faultsOf({ ...wrong, HOST: '127.0.0.1' })
    expect(faults.map((fault) => fault.split(' ')[0]).toSorted()).toStrictEqual(Object.keys(wrong).toSorted())
  })
})
