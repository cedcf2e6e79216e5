import type { AuditEntry } from '../../audit/record.ts'
import type { UnfinishedMove } from '../../storage/unfinished-move.ts'

/** A value of a row, the same in both engines; bytes only in the sources of cards and their pieces. */
export type Value = string | number | Uint8Array | null
export type Row = Readonly<Record<string, Value>>

/** What a column holds. A NAME is a text that may have any letter, U+0000 too; no other text keeps that one. */
export type Kind = 'TEXT' | 'NAME' | 'BIGINT' | 'BYTEA'

/** A table that is moved. */
export interface Table {
  readonly name: string
  readonly key: readonly string[]
  readonly columns: Readonly<Record<string, Kind>>
  /** Rows that are read and written at once: few, where a row may be large. */
  readonly batch: number
}

/** The tables, each after those that it refers to. Columns are in the order in which they are hashed. */
export const tables: readonly Table[] = [
  table('accounts', 'id', 'name created:n suspended:n limits models', 'id'),
  table(
    'keys',
    '',
    'id name prefix digest scopes created:n expires:n revoked:n limits last_used:n account:n models',
    'id',
  ),
  table('plants', 'account id', 'name tag', 'account id'),
  table('grants', 'owner grantee created', 'tag', 'grantee owner tag'),
  table('idempotency_keys', 'account plant created', 'key request name tag', 'account key'),
  { ...table('characters', 'account created updated', 'name:a folded:a digest about', 'account name'), batch: 50 },
  // A card may have many megabytes: one by one.
  { ...table('character_versions', 'account created', 'name:a digest source:b', 'account name digest'), batch: 1 },
  table('character_use', 'account bytes uploaded used', 'name:a digest', 'account name digest'),
  table('uploads', 'begun bytes account', 'id name:a digest', 'id'),
  { ...table('card_pieces', 'place', 'upload bytes:b', 'upload place'), batch: 8 },
  table(
    'requests',
    'account created microsecond reserved_tokens prompt_tokens completion_tokens tokens_exact first_token_ms total_ms retries summed',
    'id key_id key_prefix model model_used character state upstream_truncated',
    'id',
  ),
  table(
    'usage_days',
    'account requests prompt_tokens completion_tokens failed',
    'day digest key_prefix model character',
    'account day digest',
  ),
  table('spend', 'tokens', 'subject day', 'subject day'),
  table('notices', '', 'id text', 'id'),
  table('imports', 'account plants done highest undoing created', 'digest', 'account digest'),
  table('deletions', 'account complete', 'file', 'account file'),
  table(
    'audit_records',
    'seq at account',
    'id actor actor_key actor_account address action target:a account_name before after',
    'seq',
  ),
]

/** @param others columns of text, or with `:n` of numbers, with `:b` of bytes, with `:a` of any letters */
function table(name: string, numbers: string, others: string, key: string): Table {
  const kinds: Readonly<Record<string, Kind>> = { n: 'BIGINT', b: 'BYTEA', a: 'NAME' }
  const columns: Record<string, Kind> = {}
  for (const column of numbers.split(' ').filter(Boolean)) columns[column] = 'BIGINT'
  for (const word of others.split(' ')) {
    const [column = '', kind = ''] = word.split(':')
    columns[column] = kinds[kind] ?? 'TEXT'
  }
  return { name, key: key.split(' '), columns, batch: 2000 }
}

/** What one side of a move can do. */
export interface MovableDatabase {
  /** Where it is, without a name or a password. */
  readonly place: string
  /** @throws StorageError when a service uses it */
  refuseServed(): Promise<void>
  /** The rows after a key, or the first ones, in the engine's own order of keys; at most a batch. */
  read(table: Table, after: readonly Value[] | undefined): Promise<readonly Row[]>
  count(table: Table): Promise<number>
  /** The highest id that an account has had. */
  highestAccount(): Promise<number>
  /** The move that has begun to fill it and is not done, if there is one. */
  begun(): Promise<UnfinishedMove | undefined>
  /** From now on no service starts over it. */
  begin(source: string): Promise<void>
  /** Writes rows, and in the same transaction how far the move has come. */
  write(table: Table, rows: readonly Row[], lastKey: string): Promise<void>
  /** Lets new accounts have ids above this one, forgets the move, and puts it on record. */
  finish(highestAccount: number, entry: AuditEntry): Promise<void>
  close(): Promise<void>
}

/** The statement that reads a batch in the order of the key's index; `$1` and so on are the values of the key before it. */
export function readStatement({ name, key, columns, batch }: Table, isAfter: boolean): string {
  const ordered = quoted(key)
  const after = isAfter ? `WHERE (${ordered}) > (${key.map((_, at) => `$${at + 1}`).join(', ')})` : ''
  return `SELECT ${quoted(Object.keys(columns))} FROM ${name} ${after} ORDER BY ${ordered} LIMIT ${batch}`
}

/** Names of columns as a list of SQL. */
export function quoted(columns: readonly string[]): string {
  return columns.map((column) => `"${column}"`).join(', ')
}
