/** A value of a row, the same in both engines; bytes only in the sources of cards. */
export type Value = string | number | Uint8Array | null
export type Row = Readonly<Record<string, Value>>

/** A table that is moved. */
export interface Table {
  readonly name: string
  readonly key: readonly string[]
  readonly columns: Readonly<Record<string, 'TEXT' | 'BIGINT' | 'BYTEA'>>
  /** Rows that are read and written at once. */
  readonly batch: number
}

/** The tables, each after those that it refers to. Columns are in the order in which they are hashed. */
export const tables: readonly Table[] = [
  table('accounts', 'id', 'name created:n suspended:n limits', 'id'),
  table('keys', '', 'id name prefix digest scopes created:n expires:n revoked:n limits last_used:n account:n', 'id'),
  table('plants', 'account id', 'name tag', 'account id'),
  table('grants', 'owner grantee created', 'tag', 'grantee owner tag'),
  table('idempotency_keys', 'account plant created', 'key request name tag', 'account key'),
  table('characters', 'account created updated', 'name folded digest about', 'account name'),
  // A card may have many megabytes.
  { ...table('character_versions', 'account created', 'name digest source:b', 'account name digest'), batch: 1 },
  table(
    'requests',
    'account created reserved_tokens prompt_tokens completion_tokens tokens_exact first_token_ms total_ms retries',
    'id key_id key_prefix model model_used character state',
    'id',
  ),
  table('spend', 'tokens', 'subject day', 'subject day'),
]

/** @param others columns of text, or with `:n` of numbers, with `:b` of bytes */
function table(name: string, numbers: string, others: string, key: string): Table {
  const columns: Record<string, 'TEXT' | 'BIGINT' | 'BYTEA'> = {}
  for (const column of numbers.split(' ').filter(Boolean)) columns[column] = 'BIGINT'
  for (const word of others.split(' ')) {
    const [column = '', kind] = word.split(':')
    columns[column] = kind === 'n' ? 'BIGINT' : kind === 'b' ? 'BYTEA' : 'TEXT'
  }
  return { name, key: key.split(' '), columns, batch: 2000 }
}

/** What one side of a move can do. Rows are in key order, text by its UTF-8 bytes. */
export interface House {
  /** Where it is, without a name or a password. */
  readonly place: string
  /** The rows after a key, or the first ones; at most a batch. */
  read(table: Table, after: readonly Value[] | undefined): Promise<readonly Row[]>
  count(table: Table): Promise<number>
  /** The highest id that an account has had. */
  highestAccount(): Promise<number>
  /** The moves that have begun here and are not done: tables and the last keys, as JSON; undefined when there is none. */
  begun(): Promise<{ readonly source: string; readonly keys: ReadonlyMap<string, string> } | undefined>
  begin(source: string): Promise<void>
  /** Writes rows, and in the same transaction how far the move has come. */
  write(table: Table, rows: readonly Row[], lastKey: string): Promise<void>
  /** Lets new accounts have ids above this one, and forgets the move. */
  finish(highestAccount: number): Promise<void>
  close(): Promise<void>
}

/** The statement that reads a batch; `$` makes the placeholder of the nth value. */
export function readStatement({ name, key, columns, batch }: Table, isAfter: boolean, collation: string): string {
  const ordered = key.map((column) => (columns[column] === 'TEXT' ? `"${column}" COLLATE ${collation}` : `"${column}"`))
  const places = key.map((_, at) => `$${at + 1}`)
  const after = isAfter ? `WHERE (${ordered.join(', ')}) > (${places.join(', ')})` : ''
  const names = Object.keys(columns).map((column) => `"${column}"`)
  return `SELECT ${names.join(', ')} FROM ${name} ${after} ORDER BY ${ordered.join(', ')} LIMIT ${batch}`
}
