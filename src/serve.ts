import closeWithGrace from 'close-with-grace'
import type { FirstStart } from './access/bootstrap.ts'
import { type Config, ConfigError } from './config.ts'
import { codeOf } from './errors.ts'
import { boundGarbage, releaseIdleMemory } from './garbage.ts'
import { printNotice } from './print.ts'
import { type Service, startService } from './service.ts'
import { closeToOthers } from './storage/rights.ts'

/**
 * Runs the service until SIGTERM or SIGINT, and a drain and a grace longer; a second signal ends it at once, and so does one
 * before it runs.
 * @throws Error with one clear sentence when it cannot start
 */
export async function serve(config: Config): Promise<void> {
  // The first process of a container has no way to end at a signal that it does not listen for, and a start may wait.
  let stop = (): void => process.exit(1)
  endOnSignals(() => stop())
  const { service, told } = await startToServe(config)
  printNotice(told)
  boundGarbage()
  releaseIdleMemory()
  process.on('SIGHUP', () => void service.reload())
  // A promise that nobody waited for is a fault of ours, and no reason to drop everybody else's requests.
  process.on('unhandledRejection', (reason) => {
    printNotice(`unhandled rejection: ${reason instanceof Error ? reason.stack : 'not an error'}`)
  })
  const skip = ['SIGHUP', 'SIGINT', 'SIGTERM', 'unhandledRejection'] as const
  const seconds = config.drainSeconds + config.shutdownGraceSeconds + 1
  const grace = closeWithGrace({ delay: seconds * 1000, logger: false, skip: [...skip] }, async ({ err }) => {
    if (err) printNotice(err.stack ?? err.message)
    // A process that has failed serves nobody well for longer.
    else await service.drain()
    await service.close()
  })
  stop = grace.close
}

/**
 * Starts the service, without a signal that ends it.
 * @returns it, and what its operator is told of the start, in lines
 * @throws Error with one clear sentence when it cannot start
 */
export async function startToServe(config: Config): Promise<{ readonly service: Service; readonly told: string }> {
  const service = await startService(config).catch((error: unknown) => {
    throw startError(error, config)
  })
  const { address, metricsAddress, bootstrap, limitWarnings } = service
  const documents = config.docs === 'on' ? ` (API reference: ${address}/docs)` : ''
  const page = config.page === 'on' ? `${address}/` : undefined
  const lines = [
    `Conservatory listens on ${address}${documents}`,
    ...(metricsAddress === undefined ? [] : [`Metrics are at ${metricsAddress}/metrics`]),
    ...(bootstrap.first === undefined ? [] : [greeting(address, bootstrap.first, page)]),
    ...closeToOthers(config.dataDirectory, config.databasePath),
    ...limitWarnings,
    ...bootstrap.notices,
  ]
  return { service, told: lines.join('\n') }
}

/** Milliseconds in which the same signal again means the first: npm passes on the Ctrl-C that the terminal sends to all. */
const repeatWindowMs = 500

/** Closes at the first SIGTERM or SIGINT, and ends the process at the second, with exit code 1. */
function endOnSignals(close: () => void): void {
  let first: { readonly signal: NodeJS.Signals; readonly at: number } | undefined
  const onSignal = (signal: NodeJS.Signals): void => {
    if (first === undefined) {
      first = { signal, at: performance.now() }
      close()
    } else if (signal !== first.signal || performance.now() - first.at > repeatWindowMs) {
      process.exit(1)
    }
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
}

/** A failure to start, in one line that an operator can act on. */
function startError(error: unknown, { host, port }: Config): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  // A file that may not be opened has the same code as a port.
  if (!('syscall' in error) || !['listen', 'getaddrinfo'].includes(String(error.syscall))) return error
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} on ${host} is in use. Stop what listens there, or set PORT to another.`,
    EACCES: `Port ${port} may not be opened by this user. Set PORT to one above 1023.`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Set HOST to one that is.`,
    ENOTFOUND: `${host} is not a known host. Set HOST to an address of this machine.`,
    EAI_AGAIN: `${host} is not a known host. Set HOST to an address of this machine.`,
  }
  const reason = reasons[codeOf(error)]
  return reason === undefined ? error : new ConfigError([reason])
}

/**
 * What the first start prints: a key that was made for it, this once, a line to try each interface with, and an address that
 * signs a browser in. The key is in its fragment, which no browser sends to a server.
 * @param page where the page is, if it is served
 */
function greeting(address: string, { key }: FirstStart, page: string | undefined): string {
  // A shell puts a preset key in as it is, whatever is in it.
  const shown = key ?? '$BOOTSTRAP_KEY'
  const made = 'This is the first start. The account "owner" has been made, with one key that may do everything'
  const told =
    key === undefined
      ? `${made}: BOOTSTRAP_KEY.\n\nTry it where that is exported:`
      : `${made}:\n\n  ${key}\n\nIt is not shown again. Try it:`
  return `
${told}

  curl ${address}/plants -H "Authorization: Bearer ${shown}" -H 'Content-Type: application/json' -d '{"name": "Monstera", "tag": "aroid"}'
  curl ${address}/chat/completions -H "Authorization: ${shown}" -H 'Content-Type: application/json' -d '{"model": "understudy", "character": "Fern", "messages": [{"role": "user", "content": "Why are my leaves turning yellow?"}]}'
${page === undefined || key === undefined ? '' : `\nOr in a browser, where this address signs you in:\n\n  ${page}#key=${key}\n`}`
}
