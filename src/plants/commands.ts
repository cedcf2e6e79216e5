import type { Command } from 'commander'
import { AccessError, type AccessStore } from '../access/access.ts'
import { printRows } from '../table.ts'
import { checkedText, type PlantStore } from './plant.ts'

/** The opened stores, as far as these commands use them. */
interface OpenedStores {
  readonly access: AccessStore
  readonly plants: PlantStore
  close(): Promise<void>
}

interface ShareOptions {
  readonly from: string
  readonly to: string
  readonly tag?: string
}

/** Adds `plants …` to the command line. `open` opens the stores for one command. */
export function addPlantCommands(program: Command, open: () => Promise<OpenedStores>): void {
  const plants = program.command('plants').description('let accounts see the plants of others')
  const withStores = async (work: (stores: OpenedStores) => Promise<void>): Promise<void> => {
    const stores = await open()
    try {
      await work(stores)
    } finally {
      await stores.close()
    }
  }

  plants
    .command('share')
    .requiredOption('--from <account>', 'the account that owns the plants')
    .requiredOption('--to <account>', 'the account that is to see them; it can never change them')
    .option('--tag <tag>', 'only the plants with this tag, now and later')
    .description('let an account see the plants of another, from now on')
    .action((options: ShareOptions) =>
      withStores(async ({ access, plants }) => {
        const { from, to, tag } = await resolve(access, options)
        const isNew = await plants.share(from.id, to.id, tag)
        const what = `${JSON.stringify(to.name)} sees ${describePlants(from.name, tag)}`
        process.stderr.write(isNew ? `${what} from now on.\n` : `${what} already.\n`)
      }),
    )
  plants
    .command('unshare')
    .requiredOption('--from <account>', 'the account that owns the plants')
    .requiredOption('--to <account>', 'the account that sees them')
    .option('--tag <tag>', 'take back only what was shared by this tag; without it, everything')
    .description('take back what `share` gave, at once')
    .action((options: ShareOptions) =>
      withStores(async ({ access, plants }) => {
        const { from, to, tag } = await resolve(access, options)
        if (!(await plants.unshare(from.id, to.id, tag))) {
          const by = tag === undefined ? '' : ` by the tag ${JSON.stringify(tag)}`
          throw new AccessError(
            `${JSON.stringify(from.name)} shares nothing with ${JSON.stringify(to.name)}${by}. See: conservatory plants shares`,
          )
        }
        const left = (await plants.shares()).filter((share) => share.from === from.name && share.to === to.name)
        const still = left.map((share) => describePlants(from.name, share.tag ?? undefined))
        const what = `Taken back: ${describePlants(from.name, tag)}.`
        const rest = still.length === 0 ? 'none of them' : still.join(' and ')
        process.stderr.write(`${what} ${JSON.stringify(to.name)} now sees ${rest}.\n`)
      }),
    )
  plants
    .command('shares')
    .option('--json', 'print JSON')
    .description('list who sees the plants of whom')
    .action((options: { json?: true }) =>
      withStores(async ({ plants }) => printRows(await plants.shares(), options.json)),
    )
}

/** The accounts that are meant, and the tag as plants have it. */
async function resolve(access: AccessStore, { from, to, tag }: ShareOptions) {
  const accounts = await access.listAccounts()
  const find = (name: string) => {
    const account = accounts.find((each) => each.name === name.trim())
    if (account) return account
    throw new AccessError(`There is no account ${JSON.stringify(name)}. See: conservatory accounts list`)
  }
  return { from: find(from), to: find(to), tag: tag === undefined ? undefined : checkedText('tag', tag) }
}

function describePlants(owner: string, tag: string | undefined): string {
  const plants = `the plants of ${JSON.stringify(owner)}`
  return tag === undefined ? plants : `${plants} with the tag ${JSON.stringify(tag)}`
}
