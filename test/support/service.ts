import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type Scope, scopes } from '../../src/access/access.ts'
import { readConfig } from '../../src/config.ts'
import { startService, type TimeSources } from '../../src/service.ts'
import { openStores } from '../../src/stores/open.ts'
import type { Stores } from '../../src/stores/stores.ts'
import { TestLoop } from './clock.ts'
import { settingsOf } from './test-database.ts'

/** A service on a free port of loopback with its own data folder. */
export interface TestService {
  readonly url: string
  /** The URL of the metrics, if METRICS_PORT is set. */
  readonly metricsUrl: string | undefined
  readonly dataDirectory: string
  /** The first key, of the account `owner` and with all scopes. */
  readonly key: string
  /** Sends a request with the first key, unless its headers say otherwise. */
  request(path: string, options?: RequestOptions): Promise<Response>
  /** Makes a key of another account, and the account if it does not exist. */
  makeKey(account: string, scopes?: readonly Scope[], expires?: number): Promise<string>
  close(): Promise<void>
}

/** Options as for fetch, but `json` is sent as a JSON body, and a header with the value null is not sent. */
export interface RequestOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | null>>
  readonly json?: unknown
  readonly body?: string | Uint8Array<ArrayBuffer>
  readonly signal?: AbortSignal
}

/** Makes an empty temporary folder. The caller removes it by `remove`. */
export function temporaryFolder(): { readonly path: string; readonly remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'conservatory-test-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/**
 * Starts a service in this process. The caller closes it.
 * @param models the content of `models.json`; by default the service has no such file
 * @param time the sources of time; by default the machine's clock, and for load shedding an event loop without delays
 */
export async function startTestService(
  environment: Readonly<Record<string, string>> = {},
  models?: Readonly<Record<string, unknown>>,
  time?: TimeSources,
): Promise<TestService> {
  const folder = temporaryFolder()
  const dataDirectory = environment['DATA_DIR'] ?? folder.path
  if (models) writeFileSync(join(dataDirectory, 'models.json'), JSON.stringify({ models }))
  const config = readConfig({
    ...(await settingsOf(dataDirectory)),
    PORT: '0',
    LOG_LEVEL: 'silent',
    SHUTDOWN_GRACE: '1',
    ...environment,
  })
  // The stores with which `makeKey` makes keys, as commands do. They are opened once.
  let beside: Promise<Stores> | undefined
  const service = await startService(config, { loop: new TestLoop(), ...time }).catch((error: unknown) => {
    folder.remove()
    throw error
  })
  const key = service.bootstrap.first?.key ?? environment['BOOTSTRAP_KEY'] ?? ''
  return {
    url: service.address,
    metricsUrl: service.metricsAddress,
    dataDirectory,
    key,
    request: (path, options) => send(service.address + path, key, options),
    async makeKey(account, wanted = scopes, expires) {
      beside ??= openStores(config)
      const { access } = await beside
      const isThere = (await access.listAccounts()).some(({ name }) => name === account)
      if (!isThere) await access.createAccount(account)
      const request = { account, scopes: wanted, ...(expires === undefined ? {} : { expires }) }
      return (await access.createKey(request)).secret
    },
    async close() {
      await (await beside)?.close()
      await service.close()
      folder.remove()
    },
  }
}

/** A `models.json` with an upstream for all models except the understudy, without retries and without a breaker. */
export function onceAsked(baseUrl: string, apiKey?: string): Readonly<Record<string, unknown>> {
  return {
    understudy: { adapter: 'understudy' },
    '*': {
      adapter: 'openai',
      baseUrl,
      ...(apiKey === undefined ? {} : { apiKey }),
      retries: 0,
      breaker: { failures: 0 },
    },
  }
}

/** Starts a service that closes at the end of the running test. */
export async function serviceForThisTest(
  environment: Readonly<Record<string, string>> = {},
  models?: Readonly<Record<string, unknown>>,
  time?: TimeSources,
): Promise<TestService> {
  const service = await startTestService(environment, models, time)
  onTestFinished(() => service.close())
  return service
}

function send(
  url: string,
  key: string,
  { method, headers, json, body, signal }: RequestOptions = {},
): Promise<Response> {
  const sent = json === undefined ? body : JSON.stringify(json)
  const all: Record<string, string | null> = {
    authorization: `Bearer ${key}`,
    ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
    ...headers,
  }
  const present = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null)
  return fetch(url, {
    method: method ?? (sent === undefined ? 'GET' : 'POST'),
    headers: present,
    ...(sent === undefined ? {} : { body: sent }),
    ...(signal ? { signal } : {}),
  })
}
