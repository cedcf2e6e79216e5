import { type Command, InvalidArgumentError } from 'commander'
import type { WithStores } from '../command.ts'
import { printLineOrError, printNotice, printRows } from '../print.ts'
import { counted } from '../text.ts'
import { isCalendarDay } from '../time.ts'
import type { AccessStores } from './access.ts'
import { AccessError, isScope, type Key, maxOverlapSeconds, type NewKey, type Scope, scopes } from './access.ts'
import type { ModelList } from './model-lists.ts'
import {
  keyLimitHelp,
  limitsText,
  modelsHelp,
  modelsText,
  readKeyChanges,
  readKeyLimits,
  readModels,
  withLimit,
} from './options.ts'

interface CreateOptions {
  readonly account: string
  readonly scopes: readonly Scope[]
  readonly name?: string
  /** Unix seconds. */
  readonly expires?: number
  readonly limit?: readonly string[]
  readonly models?: ModelList | null
}

const whichKey =
  'the prefix that `keys list` shows, or at least its first 4 characters; the id of the key; or the whole key'

/** Adds `keys …` to the command line. */
export function addKeyCommands(program: Command, withStores: WithStores<AccessStores>): void {
  const keys = program.command('keys').description('make, list, rotate and revoke keys')
  keys
    .command('create')
    .requiredOption('--account <name>', 'the account that the key belongs to')
    .requiredOption('--scopes <a,b>', `what the key may do: ${scopes.join(', ')}`, readScopes)
    .option('--name <text>', 'a name to recognise the key by')
    .option('--expires <ISO 8601>', 'when the key ends, such as 2027-01-31T12:00:00Z', readExpiry)
    .option('--limit <name=value>', keyLimitHelp, withLimit)
    .option('--models <a,b/*>', modelsHelp, readModels)
    .description('make a key, and print it: it is not shown again')
    .action((options: CreateOptions) =>
      withStores(async ({ access }) => {
        const made = await access.createKey({
          account: options.account,
          scopes: options.scopes,
          limits: readKeyLimits(options.limit),
          models: options.models ?? null,
          ...(options.name === undefined ? {} : { name: options.name }),
          ...(options.expires === undefined ? {} : { expires: options.expires }),
        })
        await printSecret(made)
      }),
    )
  keys
    .command('list')
    .option('--account <name>', 'only the keys of this account')
    .option('--json', 'print JSON')
    .description('list keys without their secrets')
    .action((options: { account?: string; json?: true }) =>
      withStores(async ({ access }) => {
        const rows = (await access.listKeys(options.account)).map((key) => describeKey(key, options.json))
        printRows(rows, options.json)
      }),
    )
  keys
    .command('rotate')
    .argument('<prefix>', whichKey)
    .requiredOption(
      '--overlap <seconds>',
      'how long the old key goes on working beside the new one; 0 ends it at once',
      readOverlap,
    )
    .description('make a key like this one, and print it: it is not shown again')
    .action((prefixOrKey: string, { overlap }: { overlap: number }) =>
      withStores(async ({ access }) => {
        const made = await access.rotateKey(prefixOrKey, overlap)
        await printSecret(made)
        const { key } = made
        const old = overlap === 0 ? 'The old one has ended' : `The old one ends in ${counted(overlap, 'second')}`
        printNotice(`The new key ${key.prefix} of ${JSON.stringify(key.account.name)} is made. ${old}.`)
      }),
    )
  keys
    .command('limit')
    .argument('<prefix>', whichKey)
    .requiredOption('--limit <name=value>', keyLimitHelp, withLimit)
    .description('change the limits of a key')
    .action((prefixOrKey: string, options: { limit: readonly string[] }) =>
      withStores(async ({ access }) => {
        const key = await access.limitKey(prefixOrKey, readKeyChanges(options.limit))
        printNotice(`The limits of the key ${key.prefix} are now: ${limitsText(key.limits) ?? 'none'}.`)
      }),
    )
  addModelsCommand(keys, withStores)
  keys
    .command('revoke')
    .argument('<prefix>', whichKey)
    .description('revoke a key immediately')
    .action((prefixOrKey: string) =>
      withStores(async ({ access }) => {
        const key = await access.revokeKey(prefixOrKey)
        printNotice(`The key ${key.prefix} of ${JSON.stringify(key.account.name)} is revoked.`)
      }),
    )
}

function addModelsCommand(keys: Command, withStores: WithStores<AccessStores>): void {
  keys
    .command('models')
    .argument('<prefix>', whichKey)
    .argument('<a,b/*>', modelsHelp, readModels)
    .description('change which models a key may use')
    .action((prefixOrKey: string, models: ModelList | null) =>
      withStores(async ({ access }) => {
        const key = await access.limitKey(prefixOrKey, {}, models)
        printNotice(`The models of the key ${key.prefix} are now: ${modelsText(key.models) ?? 'all'}.`)
      }),
    )
}

/** Prints only the new key on stdout. @throws AccessError when stdout could not be written */
async function printSecret({ key, secret }: NewKey): Promise<void> {
  const failure = await printLineOrError(secret)
  if (!failure) return
  throw new AccessError(
    `The key ${key.prefix} is made, but could not be shown. Revoke it: conservatory keys revoke ${key.prefix}`,
    'refused',
    { cause: failure },
  )
}

function readScopes(list: string): readonly Scope[] {
  const names = list.split(',').map((name) => name.trim())
  const unknown = names.filter((name) => !isScope(name))
  if (unknown.length > 0) {
    const names = unknown.map((name) => JSON.stringify(name)).join(', ')
    throw new InvalidArgumentError(`There is no scope ${names}; there are ${scopes.join(', ')}.`)
  }
  return [...new Set(names.filter(isScope))]
}

/** Reads a moment in ISO 8601 as Unix seconds. A time without a time zone is refused: its meaning would depend on the machine. */
function readExpiry(text: string): number {
  const isComplete = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text)
  const milliseconds = isComplete && isCalendarDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(milliseconds)) {
    throw new InvalidArgumentError('It is not a moment; write it like 2027-01-31T12:00:00Z.')
  }
  if (milliseconds <= Date.now()) throw new InvalidArgumentError('It is past; give a moment to come.')
  return Math.floor(milliseconds / 1000)
}

function readOverlap(text: string): number {
  const overlap = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (overlap <= maxOverlapSeconds) return overlap
  throw new InvalidArgumentError(`Give whole seconds from 0 to ${maxOverlapSeconds}, which is a year.`)
}

function describeKey(key: Key, json: true | undefined): Record<string, unknown> {
  return {
    prefix: key.prefix,
    account: key.account.name,
    name: key.name,
    scopes: key.scopes,
    models: json ? key.models : modelsText(key.models),
    created: key.created,
    expires: key.expires,
    revoked: key.revoked,
    last_used: key.lastUsed,
    limits: json ? key.limits : limitsText(key.limits),
  }
}
