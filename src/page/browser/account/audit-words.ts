import { ownValue } from '../base/own-value.ts'
/** The audited actions with their titles, in groups. */
export const actionGroups: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    'Keys',
    [
      ['key.created', 'Key made'],
      ['key.rotated', 'Key rotated'],
      ['key.revoked', 'Key revoked'],
      ['key.limited', 'Limits of a key changed'],
    ],
  ],
  [
    'Accounts',
    [
      ['account.created', 'Account made'],
      ['account.suspended', 'Account suspended'],
      ['account.resumed', 'Account resumed'],
      ['account.limited', 'Limits of an account changed'],
      ['account.deleted', 'Account deleted'],
      ['account.exported', 'Account exported'],
      ['account.imported', 'Account imported'],
      ['account.import_undone', 'Import of an account undone'],
    ],
  ],
  [
    'Shares of plants',
    [
      ['share.granted', 'Plants shared'],
      ['share.revoked', 'Share taken back'],
    ],
  ],
  [
    'Characters',
    [
      ['character.created', 'Character added'],
      ['character.replaced', 'Character replaced'],
      ['character.deleted', 'Character deleted'],
      ['character.purged', 'Old version of a character removed'],
    ],
  ],
  [
    'Service',
    [
      ['database.restored', 'Database restored'],
      ['database.migrated', 'Database migrated'],
      ['models.reloaded', 'Models read again'],
    ],
  ],
]

const titles: ReadonlyMap<string, string> = new Map(actionGroups.flatMap(([, actions]) => actions))

/**
 * The title of an action. A newer service may send an action that this page does not know. Then the title is the name of the
 * action.
 */
export function wordsOfAction(action: string): string {
  return titles.get(action) ?? action
}

const facts: Readonly<Record<string, string>> = {
  account: 'Account',
  name: 'Name',
  scopes: 'Scopes',
  expires: 'Expires',
  revoked: 'Stops working',
  limits: 'Limits',
  models: 'Models',
  suspended: 'Suspended',
  successor: 'Its successor',
  tags: 'Tags',
  plants: 'Plants',
  rows: 'Rows',
  place: 'Database',
  backup: 'Backup',
  schema: 'Schema',
  card: 'Card',
}

/** The title of a field. The name of a nested field contains dots. */
export function wordsOfFact(name: string): string {
  const [whole = '', ...within] = name.split('.')
  if (within.length > 0) return `${ownValue(facts, whole) ?? sentence(whole)}: ${within.join('.').replaceAll('_', ' ')}`
  return ownValue(facts, name) ?? sentence(name)
}

function sentence(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words.slice(0, 1).toUpperCase() + words.slice(1)
}

/** Fields in Unix seconds. */
export const moments: ReadonlySet<string> = new Set(['expires', 'revoked', 'suspended'])

/** The words for fields that are null. */
export const nothings: Readonly<Record<string, string>> = {
  name: 'none',
  expires: 'never',
  revoked: 'no',
  suspended: 'no',
  models: 'all',
}
