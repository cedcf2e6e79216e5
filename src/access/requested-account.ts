import { ApiError, invalidField } from '../errors.ts'
import { AccessError, type AccessStore, findAccount, type Key } from './access.ts'

/**
 * The id of the account that a request is about: the caller's account, or the account that an operator names.
 * @param name the query parameter `account`
 * @throws ApiError 403 if a key without the scope `admin` sends a name, 400 for a name that no account has
 */
export async function requestedAccount(store: AccessStore, caller: Key, name: string | undefined): Promise<number> {
  if (name === undefined) return caller.account.id
  if (!caller.scopes.includes('admin')) {
    const message = 'Only a key with the scope "admin" sees other accounts. Leave out the query parameter "account".'
    throw new ApiError(403, 'missing_scope', message, { param: 'account' })
  }
  try {
    return (await findAccount(store, name)).id
  } catch (error) {
    if (!(error instanceof AccessError)) throw error
    throw invalidField('account', 'is not the name of an account here', 'The value of')
  }
}
