import type { Command } from 'commander'
import type { AccessStore } from './access.ts'
import { addAccountCommands } from './account-commands.ts'
import { addKeyCommands } from './key-commands.ts'

/** The opened stores, as far as these commands use them. */
export interface OpenedStores {
  readonly access: AccessStore
  close(): Promise<void>
}

/** Opens the stores for one piece of work, and closes them. */
export type WithStore = (work: (store: AccessStore) => Promise<void>) => Promise<void>

/** Gives a way to work with the stores that `open` opens. */
export function withStoreOf(open: () => Promise<OpenedStores>): WithStore {
  return async (work) => {
    const stores = await open()
    try {
      await work(stores.access)
    } finally {
      await stores.close()
    }
  }
}

/**
 * Adds `accounts …` and `keys …` to the command line.
 * @returns `accounts`, for what else can be done with one
 */
export function addAccessCommands(program: Command, open: () => Promise<OpenedStores>): Command {
  const withStore = withStoreOf(open)
  const accounts = addAccountCommands(program, withStore)
  addKeyCommands(program, withStore)
  return accounts
}
