import type { Command } from 'commander'
import type { AccessStore, Account } from './access.ts'
import { addAccountCommands } from './account-commands.ts'
import { addKeyCommands } from './key-commands.ts'
import { unknownAccount } from './rows.ts'

/** Opens the stores for one piece of work, closes them, and gives what came of it. */
export type WithStores<Stores> = <T>(work: (stores: Stores) => Promise<T>) => Promise<T>

/** The stores as far as these commands use them. */
export interface AccessStores {
  readonly access: AccessStore
}

/**
 * Adds `accounts …` and `keys …` to the command line.
 * @returns `accounts`, for what else can be done with one
 */
export function addAccessCommands(program: Command, withStores: WithStores<AccessStores>): Command {
  const accounts = addAccountCommands(program, withStores)
  addKeyCommands(program, withStores)
  return accounts
}

/**
 * Finds an account by the name that an operator gave.
 * @throws AccessError when there is none of this name
 */
export async function findAccount(store: AccessStore, name: string): Promise<Account> {
  const account = (await store.listAccounts()).find((each) => each.name === name.trim())
  if (!account) throw unknownAccount(name)
  return account
}
