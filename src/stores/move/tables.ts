import type { AuditEntry } from '../../audit/record.ts'
import { valueIn } from '../../fields.ts'
import type { UnfinishedMove } from '../../storage/unfinished-move.ts'

/** A value of a row, the same for both engines. Only the sources of cards and the pieces of cards are bytes. */
export type Value = string | number | Uint8Array | null
export type Row = Readonly<Record<string, Value>>

/** The type of a column. A NAME is a text that keeps U+0000. A TEXT loses U+0000. */
export type Kind = 'TEXT' | 'NAME' | 'BIGINT' | 'DOUBLE PRECISION' | 'BYTEA'

/** A table that is moved. */
export interface Table {
  readonly name: string
  readonly key: readonly string[]
  readonly columns: Readonly<Record<string, Kind>>
  /** How many rows are read and written in one step. A table with large rows has a small number. */
  readonly batch: number
}

/** The tables in the order of the move, so each after the tables that it refers to. Digests of rows use this order of columns. */
export const tables: readonly Table[] = [
  table('accounts', 'id', 'name created:n suspended:n limits models time_zone', 'id'),
  table(
    'keys',
    '',
    'id name prefix digest scopes created:n expires:n revoked:n limits last_used:n account:n models subject maker maker_limits',
    'id',
  ),
  table('plants', 'account id created updated version', 'name tag folded found', 'account id'),
  table(
    'plant_details',
    'account plant archived photo_bytes',
    'species place light acquired notes photo_type photo_digest',
    'account plant',
  ),
  { ...table('photo_pieces', 'account plant place', 'bytes:b', 'account plant place'), batch: 8 },
  table(
    'care_rules',
    'account plant every_days season_days last',
    'kind season_from season_to set_on not_before due',
    'account plant kind',
  ),
  table('care_logs', 'log owner account plant', '', 'log'),
  table('care_events', 'log at', 'id kind note value:f unit', 'log id'),
  table('care_feeds', 'account created', 'digest', 'account'),
  table('holdings', 'account events photo_bytes', '', 'account'),
  table('kept_replies', 'account created', 'key request reply', 'account key'),
  table('grants', 'owner grantee created', 'tag', 'grantee owner tag'),
  table('idempotency_keys', 'account plant created removed', 'key request name tag', 'account key'),
  { ...table('characters', 'account created updated', 'name:a folded:a digest about', 'account name'), batch: 50 },
  { ...table('character_versions', 'account created', 'name:a digest source:b', 'account name digest'), batch: 1 },
  table('character_use', 'account bytes uploaded used', 'name:a digest', 'account name digest'),
  table('uploads', 'begun bytes account', 'id name:a digest', 'id'),
  { ...table('card_pieces', 'place', 'upload bytes:b', 'upload place'), batch: 8 },
  table(
    'requests',
    'account created microsecond reserved_tokens prompt_tokens completion_tokens tokens_exact first_token_ms total_ms retries summed',
    'id key_id key_prefix model model_used character state upstream_truncated maker',
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
  table('secrets', '', 'name value', 'name'),
  table('imports', 'account plants done highest undoing created', 'digest', 'account digest'),
  table('deletions', 'account complete', 'file', 'account file'),
  table(
    'audit_records',
    'seq at account',
    'id actor actor_key actor_account address action target:a account_name before after',
    'seq',
  ),
]

/**
 * @param numbers columns of numbers
 * @param others columns of text. A suffix means another type: `:n` a whole number, `:f` any number, `:b` bytes, `:a` a name with any character
 */
function table(name: string, numbers: string, others: string, key: string): Table {
  const kinds: Readonly<Record<string, Kind>> = { n: 'BIGINT', f: 'DOUBLE PRECISION', b: 'BYTEA', a: 'NAME' }
  const columns: Record<string, Kind> = {}
  for (const column of numbers.split(' ').filter(Boolean)) columns[column] = 'BIGINT'
  for (const word of others.split(' ').filter(Boolean)) {
    const [column = '', kind = ''] = word.split(':')
    columns[column] = valueIn(kinds, kind) ?? 'TEXT'
  }
  return { name, key: key.split(' '), columns, batch: 2000 }
}

/** A database as the source or the target of a move. */
export interface MovableDatabase {
  /** The path of the database, or its hosts and name, without a user name and a password. */
  readonly place: string
  /** @throws StorageError when a service uses the database */
  refuseServed(): Promise<void>
  /** The batch of rows after a key, or the first batch, in the engine's own order of keys. */
  read(table: Table, after: readonly Value[] | undefined): Promise<readonly Row[]>
  count(table: Table): Promise<number>
  /** The highest id that an account has had. */
  highestAccount(): Promise<number>
  /** The unfinished move into this database; undefined when there is no such move. */
  unfinishedMove(): Promise<UnfinishedMove | undefined>
  /** Begins a move into this database. Until `finish`, a service refuses to start with this database. */
  begin(source: string): Promise<void>
  /** Writes rows, and records the key of the last row in the same transaction. */
  write(table: Table, rows: readonly Row[], lastKey: string): Promise<void>
  /** Completes the move, and writes the audit entry. From then on, new accounts get ids above `highestAccount`. */
  finish(highestAccount: number, entry: AuditEntry): Promise<void>
  close(): Promise<void>
}

/** The statement that reads a batch in the order of the key. `$1` and so on stand for the last key of the previous batch. */
export function readStatement({ name, key, columns, batch }: Table, isAfter: boolean): string {
  const ordered = quoted(key)
  const after = isAfter ? `WHERE (${ordered}) > (${key.map((_, at) => `$${at + 1}`).join(', ')})` : ''
  return `SELECT ${quoted(Object.keys(columns))} FROM ${name} ${after} ORDER BY ${ordered} LIMIT ${batch}`
}

/** A list of quoted column names for SQL. */
export function quoted(columns: readonly string[]): string {
  return columns.map((column) => `"${column}"`).join(', ')
}
