import type { Command } from 'commander'
import { printRows } from '../table.ts'
import { AccessError, type AccessStore, isScope, type Key, type Scope, scopes } from './access.ts'

/** The opened stores, as far as these commands use them. */
interface OpenedStores {
  readonly access: AccessStore
  close(): Promise<void>
}

/** Adds `accounts …` and `keys …` to the command line. `open` opens the stores for one command. */
export function addAccessCommands(program: Command, open: () => Promise<OpenedStores>): void {
  const withStore = async (work: (store: AccessStore) => Promise<void>): Promise<void> => {
    const stores = await open()
    try {
      await work(stores.access)
    } finally {
      await stores.close()
    }
  }

  const accounts = program.command('accounts').description('make and list accounts')
  accounts
    .command('create')
    .argument('<name>')
    .description('make an account')
    .action((name: string) =>
      withStore(async (store) => {
        const account = await store.createAccount(name)
        process.stderr.write(
          `The account ${JSON.stringify(account.name)} is made. Give it a key: conservatory keys create\n`,
        )
      }),
    )
  accounts
    .command('list')
    .option('--json', 'print JSON')
    .description('list the accounts')
    .action((options: { json?: true }) =>
      withStore(async (store) => {
        const rows = (await store.listAccounts()).map(({ name, created }) => ({ name, created }))
        printRows(rows, options.json)
      }),
    )

  const keys = program.command('keys').description('make, list and revoke keys')
  keys
    .command('create')
    .requiredOption('--account <name>', 'the account that the key belongs to')
    .requiredOption('--scopes <a,b>', `what the key may do: ${scopes.join(', ')}`)
    .option('--name <text>', 'a name to recognise the key by')
    .option('--expires <ISO 8601>', 'when the key ends, such as 2027-01-31T12:00:00Z')
    .description('make a key and print it, this once')
    .action((options: { account: string; scopes: string; name?: string; expires?: string }) =>
      withStore(async (store) => {
        const { secret } = await store.createKey({
          account: options.account,
          scopes: readScopes(options.scopes),
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
      withStore(async (store) => {
        printRows((await store.listKeys(options.account)).map(describeKey), options.json)
      }),
    )
  keys
    .command('revoke')
    .argument('<prefix>', 'the prefix that `keys list` shows, or the whole key')
    .description('revoke a key, at once')
    .action((prefixOrKey: string) =>
      withStore(async (store) => {
        const key = await store.revokeKey(prefixOrKey)
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

/** Date.parse takes 30 February for 2 March. */
function isCalendarDay(day: string): boolean {
  const milliseconds = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(milliseconds) && new Date(milliseconds).toISOString().startsWith(day)
}

function describeKey(key: Key): Record<string, unknown> {
  return {
    prefix: key.prefix,
    account: key.account.name,
    name: key.name,
    scopes: key.scopes,
    created: key.created,
    expires: key.expires,
    revoked: key.revoked,
  }
}
