import type { Command } from 'commander'
import { printRows } from '../table.ts'
import { isCalendarDay } from '../time.ts'
import { AccessError, isScope, type Key, longestOverlap, type Scope, scopes } from './access.ts'
import type { AccessStores, WithStores } from './commands.ts'
import { gather, limitHelp, limitsText, readLimitChanges, readLimits } from './limit-options.ts'

interface CreateOptions {
  readonly account: string
  readonly scopes: string
  readonly name?: string
  readonly expires?: string
  readonly limit: readonly string[]
}

const whichKey = 'the prefix that `keys list` shows, or the whole key'

/** Adds `keys …` to the command line. */
export function addKeyCommands(program: Command, withStores: WithStores<AccessStores>): void {
  const keys = program.command('keys').description('make, list, rotate and revoke keys')
  keys
    .command('create')
    .requiredOption('--account <name>', 'the account that the key belongs to')
    .requiredOption('--scopes <a,b>', `what the key may do: ${scopes.join(', ')}`)
    .option('--name <text>', 'a name to recognise the key by')
    .option('--expires <ISO 8601>', 'when the key ends, such as 2027-01-31T12:00:00Z')
    .option('--limit <name=value>', limitHelp, gather, [])
    .description('make a key and print it, this once')
    .action((options: CreateOptions) =>
      withStores(async ({ access }) => {
        const { secret } = await access.createKey({
          account: options.account,
          scopes: readScopes(options.scopes),
          limits: readLimits(options.limit),
          ...(options.name === undefined ? {} : { name: options.name }),
          ...(options.expires === undefined ? {} : { expires: readExpiry(options.expires) }),
        })
        process.stdout.write(`${secret}\n`)
      }),
    )
  keys
    .command('list')
    .option('--account <name>', 'only the keys of this account')
    .option('--json', 'print JSON')
    .description('list keys; never their secrets')
    .action((options: { account?: string; json?: true }) =>
      withStores(async ({ access }) => {
        const rows = (await access.listKeys(options.account)).map((key) => describeKey(key, options.json))
        printRows(rows, options.json)
      }),
    )
  keys
    .command('rotate')
    .argument('<prefix>', whichKey)
    .requiredOption('--overlap <seconds>', 'how long the old key goes on working beside the new one; 0 ends it at once')
    .description('make a key like this one and print it, this once')
    .action((prefixOrKey: string, options: { overlap: string }) =>
      withStores(async ({ access }) => {
        const overlap = readOverlap(options.overlap)
        const { key, secret } = await access.rotateKey(prefixOrKey, overlap)
        process.stdout.write(`${secret}\n`)
        const old = overlap === 0 ? 'The old one has ended' : `The old one ends in ${overlap} seconds`
        process.stderr.write(`The new key ${key.prefix} of ${JSON.stringify(key.account.name)} is made. ${old}.\n`)
      }),
    )
  keys
    .command('limit')
    .argument('<prefix>', whichKey)
    .option('--limit <name=value>', `${limitHelp}; the value none takes one away`, gather, [])
    .description('change the limits of a key')
    .action((prefixOrKey: string, options: { limit: readonly string[] }) =>
      withStores(async ({ access }) => {
        const key = await access.limitKey(prefixOrKey, readLimitChanges(options.limit))
        process.stderr.write(`The key ${key.prefix} has ${limitsText(key.limits) ?? 'no'} limits now.\n`)
      }),
    )
  keys
    .command('revoke')
    .argument('<prefix>', whichKey)
    .description('revoke a key, at once')
    .action((prefixOrKey: string) =>
      withStores(async ({ access }) => {
        const key = await access.revokeKey(prefixOrKey)
        process.stderr.write(`The key ${key.prefix} of ${JSON.stringify(key.account.name)} is revoked.\n`)
      }),
    )
}

function readScopes(list: string): readonly Scope[] {
  const names = list.split(',').map((name) => name.trim())
  const unknown = names.filter((name) => !isScope(name))
  if (unknown.length > 0) {
    throw new AccessError(
      `There is no scope ${unknown.map((name) => JSON.stringify(name)).join(', ')}; there are ${scopes.join(', ')}.`,
    )
  }
  return [...new Set(names.filter(isScope))]
}

/** Unix seconds. A date without a time zone would mean another moment on another machine, so it is refused. */
function readExpiry(text: string): number {
  const isComplete = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text)
  const milliseconds = isComplete && isCalendarDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(milliseconds)) {
    throw new AccessError(`${JSON.stringify(text)} is not a moment; write it like 2027-01-31T12:00:00Z.`)
  }
  if (milliseconds <= Date.now()) throw new AccessError(`${JSON.stringify(text)} is past; give a moment to come.`)
  return Math.floor(milliseconds / 1000)
}

/** Seconds. */
function readOverlap(text: string): number {
  const overlap = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (overlap <= longestOverlap) return overlap
  throw new AccessError(
    `The overlap is ${JSON.stringify(text)}; give whole seconds from 0 to ${longestOverlap}, which is a year.`,
  )
}

function describeKey(key: Key, json: true | undefined): Record<string, unknown> {
  return {
    prefix: key.prefix,
    account: key.account.name,
    name: key.name,
    scopes: key.scopes,
    created: key.created,
    expires: key.expires,
    revoked: key.revoked,
    last_used: key.lastUsed,
    limits: json ? key.limits : limitsText(key.limits),
  }
}
