import type { Database } from 'better-sqlite3'

/** One step of the schema's history. It is applied once, in order, in a transaction, and recorded by its name. */
export interface Migration {
  readonly name: string
  readonly sql: string
  /**
   * The last migration of the previous release. A service that knows that migration may use the migrated database, although the
   * service does not know this step. Without this field, older services refuse to start. Only migrations of PostgreSQL have this
   * field, because several services share a PostgreSQL database.
   */
  readonly servesFrom?: string
}

/**
 * Called in the transaction of the migrations, with the newest applied migration before and after the transaction. Not called for
 * a new database.
 */
export type OnMigrated<Sql, Result> = (sql: Sql, before: string, after: string) => Result

/** The schema's history. Append only: a released migration is never edited. */
export const migrations: readonly Migration[] = [
  {
    name: '0001-accounts-and-keys',
    sql: `
      CREATE TABLE accounts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        created INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        account INTEGER NOT NULL REFERENCES accounts (id),
        name TEXT,
        prefix TEXT NOT NULL UNIQUE,
        digest TEXT NOT NULL UNIQUE,
        scopes TEXT NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER,
        revoked INTEGER
      ) STRICT;
    `,
  },
  {
    name: '0002-plants',
    sql: `
      CREATE TABLE plants (
        account INTEGER NOT NULL REFERENCES accounts (id),
        id INTEGER NOT NULL,
        name TEXT NOT NULL,
        tag TEXT,
        PRIMARY KEY (account, id)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX plants_by_tag ON plants (account, tag, id) WHERE tag IS NOT NULL;
    `,
  },
  {
    // A card's source is stored as bytes: a text column would replace lone surrogates, and the digest would no longer match.
    name: '0003-characters',
    sql: `
      CREATE TABLE characters (
        account INTEGER NOT NULL REFERENCES accounts (id),
        name TEXT NOT NULL,
        folded TEXT NOT NULL,
        digest TEXT NOT NULL,
        about TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        PRIMARY KEY (account, name)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX characters_by_folded_name ON characters (account, folded, name);
      CREATE TABLE character_versions (
        account INTEGER NOT NULL,
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        source BLOB NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (account, name, digest),
        FOREIGN KEY (account, name) REFERENCES characters (account, name) ON DELETE CASCADE
      ) STRICT;
    `,
  },
  {
    name: '0004-idempotency-keys',
    sql: `
      CREATE TABLE idempotency_keys (
        account INTEGER NOT NULL REFERENCES accounts (id),
        key TEXT NOT NULL,
        request TEXT NOT NULL,
        plant INTEGER NOT NULL,
        name TEXT NOT NULL,
        tag TEXT,
        created INTEGER NOT NULL,
        PRIMARY KEY (account, key)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created);
    `,
  },
  {
    // Limits are JSON objects from limit names to whole numbers.
    name: '0005-limits-and-suspension',
    sql: `
      ALTER TABLE accounts ADD COLUMN suspended INTEGER;
      ALTER TABLE accounts ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
      ALTER TABLE keys ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
      ALTER TABLE keys ADD COLUMN last_used INTEGER;
    `,
  },
  {
    // A grant with an empty tag shares all plants.
    name: '0006-grants',
    sql: `
      CREATE TABLE grants (
        owner INTEGER NOT NULL REFERENCES accounts (id),
        grantee INTEGER NOT NULL REFERENCES accounts (id),
        tag TEXT NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (grantee, owner, tag)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    // A row outlives its account and its key, so the row has no foreign keys. A request that still runs has the state "running".
    // The reserved tokens of such a request count as spent until the request ends.
    name: '0007-ledger',
    sql: `
      CREATE TABLE requests (
        id TEXT PRIMARY KEY,
        account INTEGER NOT NULL,
        key_id TEXT NOT NULL,
        key_prefix TEXT NOT NULL,
        model TEXT NOT NULL,
        model_used TEXT,
        character TEXT,
        created INTEGER NOT NULL,
        reserved_tokens INTEGER NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        tokens_exact INTEGER NOT NULL,
        first_token_ms INTEGER,
        total_ms INTEGER NOT NULL,
        retries INTEGER NOT NULL,
        state TEXT NOT NULL
      ) STRICT;
      CREATE INDEX requests_by_account ON requests (account, created);
      CREATE INDEX requests_by_age ON requests (created);
      CREATE INDEX requests_running ON requests (id) WHERE state = 'running';
      CREATE TABLE spend (
        subject TEXT NOT NULL,
        day TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        PRIMARY KEY (subject, day)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    // `json` is the text of a plant in lists, so a list does not read `name` and `tag`. The column is generated, so it cannot
    // differ from the rest of the row. SQLite cannot add a stored generated column to a table, so this step makes a new table.
    name: '0008-plants-as-json',
    sql: `
      CREATE TABLE plants_as_json (
        account INTEGER NOT NULL REFERENCES accounts (id),
        id INTEGER NOT NULL,
        name TEXT NOT NULL,
        tag TEXT,
        json TEXT NOT NULL GENERATED ALWAYS AS (
          '{"name":' || json_quote(name) || iif(tag IS NULL, '', ',"tag":' || json_quote(tag)) || '}'
        ) STORED,
        PRIMARY KEY (account, id)
      ) STRICT, WITHOUT ROWID;
      INSERT INTO plants_as_json (account, id, name, tag) SELECT account, id, name, tag FROM plants ORDER BY account, id;
      DROP TABLE plants;
      ALTER TABLE plants_as_json RENAME TO plants;
      CREATE INDEX plants_by_tag ON plants (account, tag, id) WHERE tag IS NOT NULL;
    `,
  },
  {
    // Before this migration, the scope "admin" was for the panels of tenants. Now the scope is for the operator. Only the first
    // account with a valid key of this scope keeps the scope. Keys of other accounts get the scope "keys" in its place. The next
    // start logs the notices once, even if a command has migrated the database.
    name: '0009-scope-keys',
    sql: `
      CREATE TABLE notices (
        id TEXT PRIMARY KEY,
        text TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      INSERT INTO notices (id, text)
        SELECT keys.id, 'The key ' || keys.prefix || ' of the account "' || accounts.name || '" has the scope keys in place of admin, '
          || 'with all scopes that a tenant can have: the CHANGELOG says why, and how to give admin back.'
        FROM keys JOIN accounts ON accounts.id = keys.account
        WHERE ',' || keys.scopes || ',' LIKE '%,admin,%' AND keys.account IS NOT (
          SELECT min(accounts.id) FROM keys JOIN accounts ON accounts.id = keys.account
          WHERE ',' || keys.scopes || ',' LIKE '%,admin,%' AND keys.revoked IS NULL AND accounts.suspended IS NULL
            AND (keys.expires IS NULL OR keys.expires > unixepoch())
        );
      UPDATE keys SET scopes = 'plants:read,plants:write,chat,characters:write,keys' WHERE id IN (SELECT id FROM notices);
    `,
  },
  {
    // These columns are not in `character_versions`, because the rows of that table contain the sources and are slow to read.
    // `uploaded` is the time of the last upload of a version, but at least a second after the `uploaded` of the previous version.
    // `used` is null until the first use. Versions that exist before this migration count as used.
    name: '0010-character-use',
    sql: `
      CREATE TABLE character_use (
        account INTEGER NOT NULL,
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        uploaded INTEGER NOT NULL,
        used INTEGER,
        PRIMARY KEY (account, name, digest),
        FOREIGN KEY (account, name, digest) REFERENCES character_versions (account, name, digest) ON DELETE CASCADE
      ) STRICT, WITHOUT ROWID;
      INSERT INTO character_use (account, name, digest, bytes, uploaded, used)
      SELECT account, name, digest, length(source), created, unixepoch() FROM character_versions;
    `,
  },
  {
    // `models` is a JSON list of model names and prefixes; null allows all models.
    name: '0011-models-of-keys',
    sql: `
      ALTER TABLE accounts ADD COLUMN models TEXT;
      ALTER TABLE keys ADD COLUMN models TEXT;
    `,
  },
  {
    // `seq` is the order of the changes. A record outlives its account, so it has no foreign key, and it also has the account's
    // name. `account` and `account_name` are null in a record about the whole database. `before` and `after` are JSON objects.
    name: '0012-audit',
    sql: `
      CREATE TABLE audit_records (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        at INTEGER NOT NULL,
        actor TEXT NOT NULL,
        actor_key TEXT,
        actor_account TEXT,
        address TEXT,
        action TEXT NOT NULL,
        target TEXT,
        account INTEGER,
        account_name TEXT,
        before TEXT,
        after TEXT
      ) STRICT;
      CREATE INDEX audit_records_by_account ON audit_records (account_name, seq);
      CREATE INDEX audit_records_by_age ON audit_records (at);
    `,
  },
  {
    // `microsecond` is the time of a request within its second. The column gives the requests of one second an order.
    name: '0013-requests-by-time',
    sql: 'ALTER TABLE requests ADD COLUMN microsecond INTEGER NOT NULL DEFAULT 0;',
  },
  {
    // A large card is written in pieces. After the pieces, its version is written with an empty `source`. `begun` is the time of
    // the upload in Unix seconds. `begun` is set to 0 when the pieces are assigned to a version, and when the upload has failed.
    // Pieces without a version are removed when `begun` is old enough.
    name: '0014-card-pieces',
    sql: `
      CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        begun INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        account INTEGER,
        name TEXT,
        digest TEXT,
        FOREIGN KEY (account, name, digest) REFERENCES character_versions (account, name, digest) ON DELETE SET NULL
      ) STRICT, WITHOUT ROWID;
      CREATE UNIQUE INDEX uploads_by_version ON uploads (account, name, digest);
      CREATE INDEX uploads_left ON uploads (begun) WHERE account IS NULL;
      CREATE TABLE card_pieces (
        upload TEXT NOT NULL REFERENCES uploads (id),
        place INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (upload, place)
      ) STRICT;
    `,
  },
  {
    // The sums of each day by account, key, model and character (docs/decisions/0025). A request is added to the sums soon after
    // its end. Requests from before this migration are added too. A partial index has the requests that are not added yet.
    name: '0015-usage-by-day',
    sql: `
      CREATE TABLE usage_days (
        account INTEGER NOT NULL,
        day TEXT NOT NULL,
        digest TEXT NOT NULL,
        key_prefix TEXT NOT NULL,
        model TEXT NOT NULL,
        character TEXT,
        requests INTEGER NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        PRIMARY KEY (account, day, digest)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX usage_days_by_age ON usage_days (day);
      ALTER TABLE requests ADD COLUMN summed INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX requests_unsummed ON requests (account, created) WHERE summed = 0 AND state <> 'running';
    `,
  },
  {
    // `imports` has the progress of each file that is imported into an account, by the file's SHA-256. An import writes the plant
    // with the highest id first. `deletions` has, for each account that is being deleted, the paths of the files with its plants.
    name: '0016-imports',
    sql: `
      CREATE TABLE imports (
        account INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
        digest TEXT NOT NULL,
        plants INTEGER NOT NULL,
        done INTEGER NOT NULL,
        highest INTEGER,
        undoing INTEGER NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (account, digest)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE deletions (
        account INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
        file TEXT NOT NULL,
        complete INTEGER NOT NULL,
        PRIMARY KEY (account, file)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    // Two counts of the prompt's tokens, such as "2048/8190": the upstream's count and our count. Null unless the upstream's
    // count is less than half of our count.
    name: '0017-truncated-prompts',
    sql: 'ALTER TABLE requests ADD COLUMN upstream_truncated TEXT;',
  },
  {
    // This index is for the pages of an account's list of keys.
    name: '0018-keys-by-account',
    sql: 'CREATE INDEX keys_by_account ON keys (account, created, id);',
  },
  {
    // A key counts in its subject: the id of the first key of its rotations. It also counts in the subject of its maker, the key
    // with limits that has made it over HTTP. Subjects outlive the rows of keys, so they are not foreign keys. Null means the
    // key's own id, and no maker. "maker" of a request is the subject of the maker of its key.
    name: '0019-subjects-of-keys',
    sql: `
      ALTER TABLE keys ADD COLUMN subject TEXT;
      ALTER TABLE keys ADD COLUMN maker TEXT;
      ALTER TABLE keys ADD COLUMN maker_limits TEXT;
      ALTER TABLE requests ADD COLUMN maker TEXT;
    `,
  },
  {
    // The expression of the first two indexes is the end of a key: `endOfRow` in `access/rows.ts`.
    name: '0020-ends-of-keys',
    sql: `
      CREATE INDEX keys_by_end ON keys ((coalesce(CASE WHEN expires < revoked OR revoked IS NULL THEN expires ELSE revoked END, 9007199254740991)));
      CREATE INDEX keys_working ON keys (account, (coalesce(CASE WHEN expires < revoked OR revoked IS NULL THEN expires ELSE revoked END, 9007199254740991)));
      CREATE INDEX keys_admin ON keys (account) WHERE scopes LIKE '%admin%';
    `,
  },
  {
    // Keys that the service makes for itself and never shows. It makes each when it is first needed.
    name: '0021-secrets',
    sql: 'CREATE TABLE secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;',
  },
  {
    // "removed" is 1 after the plant of the row has been removed. An account keeps a bounded number of these rows.
    name: '0022-keys-of-removed-plants',
    sql: `
      ALTER TABLE idempotency_keys ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX idempotency_keys_by_plant ON idempotency_keys (account, plant);
      CREATE INDEX idempotency_keys_removed ON idempotency_keys (account, created, plant) WHERE removed = 1;
    `,
  },
]

/** The names of the applied migrations. Undefined if there is no table `migrations`: then the database is new, or not ours. */
export function appliedMigrations(database: Database): readonly string[] | undefined {
  if (!database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'").get())
    return undefined
  return database.prepare<[], string>('SELECT name FROM migrations').pluck().all()
}

/** The applied migrations that this version does not know. If there are any, a newer version has migrated the database. */
export function unknownMigrations(applied: readonly string[], history = migrations): readonly string[] {
  const known = new Set(history.map(({ name }) => name))
  return applied.filter((name) => !known.has(name))
}
