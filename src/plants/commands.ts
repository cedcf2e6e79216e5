import type { Command } from 'commander'
import { AccessError, type AccessStore, type AccessStores, findAccount } from '../access/access.ts'
import type { WithStores } from '../command.ts'
import { printNotice, printRows } from '../print.ts'
import { checkedText, type PlantStore } from './plant.ts'

/** The stores as far as these commands use them. */
interface UsedStores extends AccessStores {
  readonly plants: PlantStore
}

interface ShareOptions {
  readonly from: string
  readonly to: string
  readonly tag?: string
}

/** Adds `plants …` to the command line. @returns the command `plants` */
export function addPlantCommands(program: Command, withStores: WithStores<UsedStores>): Command {
  const plants = program.command('plants').description('let accounts see the plants of other accounts')
  plants
    .command('share')
    .requiredOption('--from <account>', 'the account that owns the plants')
    .requiredOption('--to <account>', 'the account that is to see them; it can never change them')
    .option('--tag <tag>', 'only the plants with this tag, including plants that are added later')
    .description('let an account see the plants of another account from now on')
    .action((options: ShareOptions) =>
      withStores(async ({ access, plants }) => {
        const { from, to, tag } = await resolve(access, options)
        const isNew = await plants.share(from.id, to.id, tag)
        const what = `${JSON.stringify(to.name)} sees ${describePlants(from.name, tag)}`
        printNotice(isNew ? `${what} from now on.` : `${what} already.`)
      }),
    )
  plants
    .command('unshare')
    .requiredOption('--from <account>', 'the account that owns the plants')
    .requiredOption('--to <account>', 'the account that sees them')
    .option('--tag <tag>', 'revoke only the share of this tag; without it, all shares')
    .description('revoke shares immediately')
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
        const what = `Revoked: ${describePlants(from.name, tag)}.`
        const rest = still.length === 0 ? 'none of them' : still.join(' and ')
        printNotice(`${what} ${JSON.stringify(to.name)} now sees ${rest}.`)
      }),
    )
  plants
    .command('shares')
    .option('--json', 'print JSON')
    .description('list which accounts see plants of other accounts')
    .action((options: { json?: true }) =>
      withStores(async ({ plants }) => printRows(await plants.shares(), options.json)),
    )
  return plants
}

/** Finds the accounts, and trims and checks the tag. */
async function resolve(access: AccessStore, { from, to, tag }: ShareOptions) {
  return {
    from: await findAccount(access, from),
    to: await findAccount(access, to),
    tag: tag === undefined ? undefined : checkedText('tag', tag),
  }
}

function describePlants(owner: string, tag: string | undefined): string {
  const plants = `the plants of ${JSON.stringify(owner)}`
  return tag === undefined ? plants : `${plants} with the tag ${JSON.stringify(tag)}`
}
