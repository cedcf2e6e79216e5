import { networkInterfaces } from 'node:os'
import closeWithGrace from 'close-with-grace'
import type { FirstStart } from './access/bootstrap.ts'
import { type Config, ConfigError } from './config.ts'
import { codeOf } from './errors.ts'
import { valueIn } from './fields.ts'
import { readAddress } from './networks.ts'
import { printNotice } from './print.ts'
import { type Service, startService } from './service.ts'
import { closeToOthers } from './storage/rights.ts'

/**
 * Starts the service. At SIGTERM or SIGINT the service drains, waits for open replies for at most the grace period, and stops. A
 * second signal, or a signal before the service has started, ends the process immediately.
 * @throws Error with one clear sentence when it cannot start
 */
export async function serve(config: Config): Promise<void> {
  // The handlers are set before the start, because a start may wait long, and process 1 of a container ignores unhandled signals.
  let stop = (_signal: NodeJS.Signals): void => process.exit(1)
  endOnSignals((signal) => stop(signal))
  const { service, notices } = await startToServe(config)
  printNotice(notices)
  process.on('SIGHUP', () => void service.reload())
  // An unhandled rejection is a defect, but ending the process would drop all other requests.
  process.on('unhandledRejection', (reason) => {
    printNotice(`unhandled rejection: ${reason instanceof Error ? withoutMessage(reason) : 'not an error'}`)
  })
  const skip = ['SIGHUP', 'SIGINT', 'SIGTERM', 'unhandledRejection'] as const
  const seconds = config.drainSeconds + config.shutdownGraceSeconds + 1
  let stoppedBy: NodeJS.Signals | undefined
  const grace = closeWithGrace({ delay: seconds * 1000, logger: false, skip: [...skip] }, async ({ err }) => {
    if (err) printNotice(withoutMessage(err))
    // After an uncaught exception the process does not drain: its state may be broken.
    else await service.drain(stoppedBy)
    await service.close()
  })
  stop = (signal) => {
    stoppedBy = signal
    grace.close()
  }
}

/**
 * Starts the service, without handling signals.
 * @returns the service, and lines for the operator
 * @throws Error with one clear sentence when it cannot start
 */
export async function startToServe(config: Config): Promise<{ readonly service: Service; readonly notices: string }> {
  const service = await startService(config).catch((error: unknown) => {
    throw startError(error, config)
  })
  const { address, metricsAddress, bootstrap, limitWarnings } = service
  const documents = config.docs === 'on' ? ` (API reference: ${address}/docs)` : ''
  const page = config.page === 'on' ? `${address}/` : undefined
  const lines = [
    `Conservatory listens on ${address}${documents}`,
    ...otherAddresses(config.host, address).map((other) => `It also listens on ${other}`),
    ...(metricsAddress === undefined ? [] : [`Metrics are at ${metricsAddress}/metrics`]),
    ...(bootstrap.first === undefined ? [] : [greeting(address, bootstrap.first, page)]),
    ...closeToOthers(config.dataDirectory, config.databasePath),
    ...limitWarnings,
    ...bootstrap.notices,
  ]
  return { service, notices: lines.join('\n') }
}

/**
 * The URLs of a service that listens on all addresses of the machine, except loopback. Link-local addresses of IPv6 are left out,
 * because a URL cannot name their interface.
 * @param host HOST
 * @param address the URL of the service on loopback
 */
function otherAddresses(host: string, address: string): readonly string[] {
  const all = readAddress(host)
  if (all !== '0.0.0.0' && all !== '::') return []
  const found = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
  const others = found.filter(
    ({ internal, family, address }) =>
      !internal && (family === 'IPv4' || (all === '::' && !address.toLowerCase().startsWith('fe80:'))),
  )
  return others.map((each) => {
    const url = new URL(address)
    url.hostname = each.family === 'IPv6' ? `[${each.address}]` : each.address
    return url.origin
  })
}

/** Milliseconds in which a repeated signal is ignored: at Ctrl-C the terminal and npm both send SIGINT to this process. */
const repeatWindowMs = 500

/** Calls `close` at the first SIGTERM or SIGINT. The second signal ends the process with exit code 1. */
function endOnSignals(close: (signal: NodeJS.Signals) => void): void {
  let first: { readonly signal: NodeJS.Signals; readonly at: number } | undefined
  const onSignal = (signal: NodeJS.Signals): void => {
    if (first === undefined) {
      first = { signal, at: performance.now() }
      close(signal)
    } else if (signal !== first.signal || performance.now() - first.at > repeatWindowMs) {
      process.exit(1)
    }
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
}

/** The name and the stack of an unexpected error. A package's message may quote an upstream, and so the conversation. */
function withoutMessage({ name, message, stack = '' }: Error): string {
  const frames = stack.indexOf('\n    at ', stack.indexOf(message) + message.length)
  return frames === -1 ? name : name + stack.slice(frames)
}

/** An error of the start, with a message that says what to change. */
function startError(error: unknown, { host, port }: Config): Error {
  if (!(error instanceof Error)) return new Error(String(error))
  // EACCES may also come from a file.
  if (!('syscall' in error) || !['listen', 'getaddrinfo'].includes(String(error.syscall))) return error
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} on ${host} is in use. Stop what listens there, or set PORT to another.`,
    EACCES: `Port ${port} may not be opened by this user. Set PORT to one above 1023.`,
    EADDRNOTAVAIL: `${host} is not an address of this machine. Set HOST to one that is.`,
    ENOTFOUND: `${host} is not a known host. Set HOST to an address of this machine.`,
    EAI_AGAIN: `${host} is not a known host. Set HOST to an address of this machine.`,
  }
  const reason = valueIn(reasons, codeOf(error))
  return reason === undefined ? error : new ConfigError([reason])
}

/**
 * The text of the first start: the key, a command to try each interface, and a URL that signs in a browser. The key is shown only
 * here. The key is in the URL's fragment, because browsers never send the fragment to a server.
 * @param page the URL of the page, if it is served
 */
function greeting(address: string, { key }: FirstStart, page: string | undefined): string {
  // BOOTSTRAP_KEY may have characters that the shell would change, so the command uses the variable.
  const shown = key ?? '$BOOTSTRAP_KEY'
  const made = 'This is the first start. The account "owner" has been made, with one key that may do everything'
  const intro =
    key === undefined
      ? `${made}: BOOTSTRAP_KEY.\n\nTry it where that is exported:`
      : `${made}:\n\n  ${key}\n\nIt is not shown again. Try it:`
  return `
${intro}

  curl ${address}/plants -H "Authorization: Bearer ${shown}" -H 'Content-Type: application/json' -d '{"name": "Monstera", "tag": "aroid"}'
  curl ${address}/chat/completions -H "Authorization: ${shown}" -H 'Content-Type: application/json' -d '{"model": "understudy", "character": "Fern", "messages": [{"role": "user", "content": "Why are my leaves turning yellow?"}]}'
${page === undefined || key === undefined ? '' : `\nOr in a browser, where this address signs you in:\n\n  ${page}#key=${key}\n`}`
}
