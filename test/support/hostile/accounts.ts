import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { readConfig } from '../../../src/config.ts'
import type { openStores } from '../../../src/stores/open.ts'

/*
 * A program: makes the accounts of attackers and bystanders with the code of a checkout, and prints their keys as JSON. The first
 * argument is the folder of the checkout, the second the number of accounts. The settings come from the environment.
 */

const [folder = '', count = '0'] = process.argv.slice(2)
const from = <T>(path: string): Promise<T> => import(pathToFileURL(join(folder, path)).href)
const config = (await from<{ readConfig: typeof readConfig }>('src/config.ts')).readConfig(process.env)
const stores = await (await from<{ openStores: typeof openStores }>('src/stores/open.ts')).openStores(config)
const keys: string[] = []
for (let index = 0; index < Number(count); index++) {
  const account = `account-${index}`
  await stores.access.createAccount(account)
  const scopes = ['plants:read', 'plants:write', 'chat', 'characters:write', 'keys'] as const
  keys.push((await stores.access.createKey({ account, scopes })).secret)
}
await stores.close()
process.stdout.write(JSON.stringify(keys))
