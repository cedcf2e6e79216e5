/*
 * Rules for the rows of a database. Rules without an `engine` are in SQL that both engines understand. `r` is the checked row. If
 * an older schema does not have the tables of a rule, that rule is left out.
 */

/** A fault of a database. */
export interface Finding {
  /** Unreadable data, rows that refer to missing rows, or numbers that do not match the rows. */
  readonly kind: 'damage' | 'orphan' | 'counter'
  /** One plain sentence. */
  readonly message: string
}

/** A finding of the kind `damage`. */
export function damage(message: string): Finding {
  return { kind: 'damage', message }
}

/** The value of one column of a primary key. */
export type KeyValue = string | number | bigint | Uint8Array | null

/** A database to check. Rules for rows are checked with many short statements, so that no snapshot is open for long. */
export interface CheckedDatabase {
  readonly engine: 'SQLite' | 'PostgreSQL'
  /** The existing tables, with the columns of their primary keys. */
  readonly tables: ReadonlyMap<string, readonly string[]>
  /** Tables of the schema that do not exist. */
  readonly missing: readonly string[]
  /** With SQLite, its built-in checks of the file, the indexes and the foreign keys. With PostgreSQL, a check of the indexes. */
  integrity(): AsyncIterable<Finding>
  /** Runs a statement with a `?` for each value. */
  query<Row extends object>(sql: string, values: readonly KeyValue[]): Promise<readonly Row[]>
}

/** A rule for each row of a table. */
export interface RowRule {
  readonly kind: Finding['kind']
  readonly table: string
  /** Other tables in the condition `fault`. */
  readonly others: readonly string[]
  /** An SQL condition that is true for a row with the fault. */
  readonly fault: string
  /** The end of the sentence, after the name of the table and the number of rows. */
  readonly says: string
  /** The engine that the rule is for; by default both engines. */
  readonly engine?: 'SQLite' | 'PostgreSQL'
}

/** A rule for a whole table: a statement that gives one row. Its column `fault` is 1 when the rule is broken. */
export interface TableRule {
  readonly engine: 'SQLite' | 'PostgreSQL'
  readonly tables: readonly string[]
  readonly sql: string
  readonly says: string
}

const rowRules: readonly RowRule[] = [
  orphan('keys', 'account', 'accounts', 'id'),
  orphan('plants', 'account', 'accounts', 'id'),
  orphan('grants', 'owner', 'accounts', 'id'),
  orphan('grants', 'grantee', 'accounts', 'id'),
  orphan('idempotency_keys', 'account', 'accounts', 'id'),
  orphan('characters', 'account', 'accounts', 'id'),
  orphan('characters', 'account name digest', 'character_versions', 'account name digest'),
  orphan('character_versions', 'account name', 'characters', 'account name'),
  orphan('character_use', 'account name digest', 'character_versions', 'account name digest'),
  // With PostgreSQL, a replica of the previous release does not write rows of `character_use`. The next purge adds these rows.
  { ...orphan('character_versions', 'account name digest', 'character_use', 'account name digest'), engine: 'SQLite' },
  // An upload without an account has no version: its pieces are still being written, or will be removed.
  orphan('uploads', 'account name digest', 'character_versions', 'account name digest', 'r.account IS NOT NULL AND '),
  orphan('card_pieces', 'upload', 'uploads', 'id'),
  orphan('imports', 'account', 'accounts', 'id'),
  orphan('plant_details', 'account plant', 'plants', 'account id'),
  // A photo without a plant is not complete, or will be removed.
  orphan('photos', 'account plant', 'plants', 'account id', 'r.account IS NOT NULL AND '),
  orphan('photo_pieces', 'photo', 'photos', 'id'),
  orphan('care_rules', 'account plant', 'plants', 'account id'),
  // The log of a deleted plant has no plant, and will be removed.
  orphan('care_logs', 'account plant', 'plants', 'account id', 'r.account IS NOT NULL AND '),
  orphan('care_events', 'log', 'care_logs', 'log'),
  orphan('care_feeds', 'account', 'accounts', 'id'),
  orphan('holdings', 'account', 'accounts', 'id'),
  orphan('kept_replies', 'account', 'accounts', 'id'),
  orphan('deletions', 'account', 'accounts', 'id'),
  {
    kind: 'counter',
    table: 'character_use',
    others: ['character_versions', 'uploads'],
    fault: `r.bytes <> (
      SELECT octet_length(v.source) FROM character_versions AS v
      WHERE v.account = r.account AND v.name = r.name AND v.digest = r.digest
    ) + coalesce((
      SELECT u.bytes FROM uploads AS u WHERE u.account = r.account AND u.name = r.name AND u.digest = r.digest
    ), 0)`,
    says: 'with another number of bytes than the version of the character has',
  },
  {
    kind: 'counter',
    table: 'uploads',
    others: ['card_pieces'],
    fault: `r.account IS NOT NULL AND r.bytes <> coalesce((
      SELECT sum(octet_length(p.bytes)) FROM card_pieces AS p WHERE p.upload = r.id), 0)`,
    says: 'of whole cards with another number of bytes than their pieces have',
  },
  {
    kind: 'counter',
    table: 'photos',
    others: ['photo_pieces'],
    fault: `r.account IS NOT NULL AND r.bytes <> coalesce((
      SELECT sum(octet_length(p.bytes)) FROM photo_pieces AS p WHERE p.photo = r.id), 0)`,
    says: 'of plants with another number of bytes than their pieces have',
  },
  {
    kind: 'counter',
    table: 'holdings',
    others: ['photos'],
    fault: `r.photo_bytes <> (
      SELECT coalesce(sum(p.bytes), 0) FROM photos AS p WHERE p.account = r.account
    ) + (
      SELECT coalesce(sum(p.bytes), 0) FROM photos AS p WHERE p.owner = r.account AND p.plant IS NULL
    )`,
    says: 'with another number of bytes than the photos of the account have',
  },
  {
    kind: 'counter',
    table: 'holdings',
    others: ['care_events', 'care_logs'],
    fault: `r.events <> (
      SELECT count(*) FROM care_logs AS l JOIN care_events AS e ON e.log = l.log WHERE l.account = r.account
    ) + (
      SELECT count(*) FROM care_logs AS l JOIN care_events AS e ON e.log = l.log
      WHERE l.plant IS NULL AND l.owner = r.account
    )`,
    says: 'with another number of events than the logs of the account have',
  },
  {
    kind: 'counter',
    table: 'plants',
    others: [],
    fault: 'r.id NOT BETWEEN -9007199254740991 AND 9007199254740991',
    says: 'with an id that is no safe integer, so that no next id can be given',
  },
]

/**
 * PostgreSQL reports a damaged page, or a lost piece of a long value, only when the value is read. So these rules read one value
 * of each row. `md5` is needed: since version 17, PostgreSQL knows that a column with NOT NULL is not null, and does not read it.
 */
const readRules = [
  ['character_versions', 'md5(r.source)'],
  ['card_pieces', 'md5(r.bytes)'],
  ['photo_pieces', 'md5(r.bytes)'],
  ['requests', 'md5(r.state)'],
  ['audit_records', 'md5(r.action)'],
].map(([table = '', value = '']): RowRule => {
  const fault = `${value} IS NULL`
  return { kind: 'damage', table, others: [], fault, says: 'without a required value', engine: 'PostgreSQL' }
})

export const tableRules: readonly TableRule[] = [
  counterOf('accounts', 'id'),
  counterOf('audit_records', 'seq'),
  sequenceOf('accounts', 'id'),
  sequenceOf('audit_records', 'seq'),
]

/**
 * The rules for a schema, which may be older than this version.
 * @param tables the existing tables
 */
export function rulesFor(tables: ReadonlySet<string>, engine: 'SQLite' | 'PostgreSQL'): readonly RowRule[] {
  return [...rowRules, ...readRules]
    .filter((rule) => (rule.engine ?? engine) === engine)
    .map((rule) => (tables.has('uploads') ? rule : withoutPieces(rule)))
    .filter(({ table, others }) => [table, ...others].every((name) => tables.has(name)))
}

function withoutPieces(rule: RowRule): RowRule {
  if (rule.table !== 'character_use' || rule.kind !== 'counter') return rule
  return { ...rule, others: ['character_versions'], fault: rule.fault.replace(/ \+ coalesce[\s\S]*$/, '') }
}

function orphan(table: string, columns: string, parent: string, parentColumns: string, where = ''): RowRule {
  const names = parentColumns.split(' ')
  const equal = columns.split(' ').map((column, index) => `o.${names[index]} = r.${column}`)
  return {
    kind: 'orphan',
    table,
    others: [parent],
    fault: `${where}NOT EXISTS (SELECT 1 FROM ${parent} AS o WHERE ${equal.join(' AND ')})`,
    says: `whose ${columns.replaceAll(' ', ', ')} no row of ${parent} has`,
  }
}

/** In PostgreSQL, the table `counters` has the last number that a row got. */
function counterOf(table: string, column: string): TableRule {
  return {
    engine: 'PostgreSQL',
    tables: ['counters', table],
    sql: `SELECT CASE WHEN (SELECT value FROM counters WHERE name = '${table}')
      >= (SELECT coalesce(max(${column}), 0) FROM ${table}) THEN 0 ELSE 1 END AS fault`,
    says: `The counter of ${table} is missing, or lower than their highest ${column}: new rows would get numbers that are taken.`,
  }
}

/** In SQLite, the table `sqlite_sequence` has the highest number that a row ever got. */
function sequenceOf(table: string, column: string): TableRule {
  return {
    engine: 'SQLite',
    tables: [table],
    sql: `SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = '${table}'), 0)
      < (SELECT coalesce(max(${column}), 0) FROM ${table}) AS fault`,
    says: `The counter of ${table} is missing, or lower than their highest ${column}: new rows would get numbers that were taken.`,
  }
}
