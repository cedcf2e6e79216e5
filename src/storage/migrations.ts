import type { Database } from 'better-sqlite3'

/** A step of the schema's history in one engine. It is applied once, in order, in a transaction, and recorded by its name. */
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

/** A step of the schema's history in both engines. A step without a name for an engine does not exist in that engine. */
interface Step {
  readonly sqlite?: string
  readonly postgres?: string
  /** The statements for both engines, in SQLite's dialect. Indexed texts have the collation "C", which SQLite has by default. */
  readonly sql?: string
  /** Further statements for one engine, in its own dialect. */
  readonly sqliteSql?: string
  readonly postgresSql?: string
}

/*
 * The history of the schema has a list of steps for each release. Append only: a released step is never edited. The SQL for
 * PostgreSQL is portable: no extension, no sequence, no advisory lock. Each step keeps everything that the previous release reads
 * and writes, so that replicas can be replaced one by one.
 */

/** The steps of 0.1.0. With SQLite, 0.1.0 recorded eight steps, which are one step here. */
const release010: readonly Step[] = [
  {
    // Limits are JSON objects from limit names to whole numbers. A grant with an empty tag shares all plants. A card's source is
    // stored as bytes: a text column would replace lone surrogates, and the digest would no longer match. A row of `requests`
    // outlives its account and its key, so it has no foreign keys. A request that still runs has the state "running". The reserved
    // tokens of such a request count as spent until the request ends. `plants.json` is the text of a plant in lists, so a list does
    // not read `name` and `tag`. The column is generated, so it cannot differ from the rest of the row.
    sqlite: '0008-plants-as-json',
    postgres: '0001-all-stores',
    sql: `
      CREATE TABLE accounts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        created INTEGER NOT NULL,
        suspended INTEGER,
        limits TEXT NOT NULL DEFAULT '{}'
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
        revoked INTEGER,
        limits TEXT NOT NULL DEFAULT '{}',
        last_used INTEGER
      ) STRICT;
      CREATE TABLE grants (
        owner INTEGER NOT NULL REFERENCES accounts (id),
        grantee INTEGER NOT NULL REFERENCES accounts (id),
        tag TEXT NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (grantee, owner, tag)
      ) STRICT, WITHOUT ROWID;
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
      CREATE TABLE characters (
        account INTEGER NOT NULL REFERENCES accounts (id),
        name TEXT COLLATE "C" NOT NULL,
        folded TEXT COLLATE "C" NOT NULL,
        digest TEXT NOT NULL,
        about TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        PRIMARY KEY (account, name)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX characters_by_folded_name ON characters (account, folded, name);
      CREATE TABLE character_versions (
        account INTEGER NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        digest TEXT NOT NULL,
        source BLOB NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (account, name, digest),
        FOREIGN KEY (account, name) REFERENCES characters (account, name) ON DELETE CASCADE
      ) STRICT;
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
      CREATE TABLE spend (
        subject TEXT NOT NULL,
        day TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        PRIMARY KEY (subject, day)
      ) STRICT, WITHOUT ROWID;
    `,
    sqliteSql: `
      CREATE INDEX requests_running ON requests (id) WHERE state = 'running';
      CREATE TABLE plants (
        account INTEGER NOT NULL REFERENCES accounts (id),
        id INTEGER NOT NULL,
        name TEXT NOT NULL,
        tag TEXT,
        json TEXT NOT NULL GENERATED ALWAYS AS (
          '{"name":' || json_quote(name) || iif(tag IS NULL, '', ',"tag":' || json_quote(tag)) || '}'
        ) STORED,
        PRIMARY KEY (account, id)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX plants_by_tag ON plants (account, tag, id) WHERE tag IS NOT NULL;
    `,
    postgresSql: `
      CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
      INSERT INTO counters VALUES ('accounts', 0);
      CREATE TABLE replicas (id TEXT PRIMARY KEY, seen BIGINT NOT NULL);
      ALTER TABLE requests ADD COLUMN replica TEXT;
      CREATE INDEX keys_by_account ON keys (account, created);
      CREATE TABLE plants (
        account BIGINT NOT NULL REFERENCES accounts (id),
        id BIGINT NOT NULL,
        name TEXT NOT NULL,
        tag TEXT,
        PRIMARY KEY (account, id)
      );
      CREATE INDEX plants_by_tag ON plants (account, tag, id);
    `,
  },
  {
    postgres: '0002-shared-limits',
    postgresSql: `
      CREATE TABLE limit_counts (
        subject TEXT PRIMARY KEY,
        requests_taken DOUBLE PRECISION NOT NULL,
        requests_at BIGINT NOT NULL,
        tokens_taken DOUBLE PRECISION NOT NULL,
        tokens_at BIGINT NOT NULL
      );
      CREATE TABLE limit_shares (
        subject TEXT NOT NULL,
        replica TEXT NOT NULL,
        chats BIGINT NOT NULL,
        reserved_tokens BIGINT NOT NULL,
        expires BIGINT NOT NULL,
        PRIMARY KEY (subject, replica)
      );
    `,
  },
]

const release020: readonly Step[] = [
  {
    // Before this migration, the scope "admin" was for the panels of tenants. Now the scope is for the operator. Only the first
    // account with a valid key of this scope keeps the scope. Keys of other accounts get the scope "keys" in its place. The next
    // start logs the notices once, even if a command has migrated the database. Replicas of the previous release do not know the
    // scope "keys", and ignore it in a key.
    sqlite: '0009-scope-keys',
    postgres: '0003-scope-keys',
    sql: `
      CREATE TABLE notices (
        id TEXT PRIMARY KEY,
        text TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      INSERT INTO notices (id, text)
        SELECT keys.id, 'The key ' || keys.prefix || ' of the account "' || accounts.name || '" has the scope keys in place of admin, '
          || 'with all scopes that a tenant can have: the CHANGELOG says why, and how to give admin back.'
        FROM keys JOIN accounts ON accounts.id = keys.account
        WHERE ',' || keys.scopes || ',' LIKE '%,admin,%' AND keys.account IS DISTINCT FROM (
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
    // `used` is null until the first use. Versions that exist before this migration count as used. A replica of the previous
    // release uploads versions without a row in `character_use`. The next purge adds the row. Over PostgreSQL, an upload locks the
    // row of its account in `upload_locks`, so an account has one upload at a time.
    sqlite: '0010-character-use',
    postgres: '0004-character-use',
    sql: `
      CREATE TABLE character_use (
        account INTEGER NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        digest TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        uploaded INTEGER NOT NULL,
        used INTEGER,
        PRIMARY KEY (account, name, digest),
        FOREIGN KEY (account, name, digest) REFERENCES character_versions (account, name, digest) ON DELETE CASCADE
      ) STRICT, WITHOUT ROWID;
      INSERT INTO character_use (account, name, digest, bytes, uploaded, used)
      SELECT account, name, digest, octet_length(source), created, unixepoch() FROM character_versions;
    `,
    postgresSql: `
      CREATE TABLE upload_locks (
        account BIGINT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE
      );
    `,
  },
  {
    // `models` is a JSON list of model names and prefixes; null allows all models.
    sqlite: '0011-models-of-keys',
    postgres: '0005-models-of-keys',
    sql: `
      ALTER TABLE accounts ADD COLUMN models TEXT;
      ALTER TABLE keys ADD COLUMN models TEXT;
    `,
  },
  {
    // `seq` is the order of the changes. A record outlives its account, so it has no foreign key, and it also has the account's
    // name. `account` and `account_name` are null in a record about the whole database. `before` and `after` are JSON objects.
    sqlite: '0012-audit',
    postgres: '0006-audit',
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
    postgresSql: "INSERT INTO counters VALUES ('audit_records', 0);",
  },
  {
    // `microsecond` is the time of a request within its second. The column gives the requests of one second an order.
    sqlite: '0013-requests-by-time',
    postgres: '0007-requests-by-time',
    sql: 'ALTER TABLE requests ADD COLUMN microsecond INTEGER NOT NULL DEFAULT 0;',
  },
  {
    // A large card is written in pieces. After the pieces, its version is written with an empty `source`. `begun` is the time of
    // the upload in Unix seconds. `begun` is set to 0 when the pieces are assigned to a version, and when the upload has failed.
    // Pieces without a version are removed when `begun` is old enough. Replicas of the previous release read a card in pieces as an
    // empty file, and answer 400.
    sqlite: '0014-card-pieces',
    postgres: '0008-card-pieces',
    sql: `
      CREATE TABLE uploads (
        id TEXT COLLATE "C" PRIMARY KEY,
        begun INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        account INTEGER,
        name TEXT COLLATE "C",
        digest TEXT COLLATE "C",
        FOREIGN KEY (account, name, digest) REFERENCES character_versions (account, name, digest) ON DELETE SET NULL
      ) STRICT, WITHOUT ROWID;
      CREATE UNIQUE INDEX uploads_by_version ON uploads (account, name, digest);
      CREATE INDEX uploads_left ON uploads (begun) WHERE account IS NULL;
      CREATE TABLE card_pieces (
        upload TEXT COLLATE "C" NOT NULL REFERENCES uploads (id),
        place INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (upload, place)
      ) STRICT;
    `,
  },
  {
    // The sums of each day by account, key, model and character (docs/decisions/0025). Ended requests are added to the sums, also
    // those from before this migration, and those of replicas of the previous release. A partial index has the requests that are
    // not added yet.
    sqlite: '0015-usage-by-day',
    postgres: '0009-usage-by-day',
    sql: `
      CREATE TABLE usage_days (
        account INTEGER NOT NULL,
        day TEXT COLLATE "C" NOT NULL,
        digest TEXT COLLATE "C" NOT NULL,
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
    postgresSql: "CREATE INDEX requests_running ON requests (id) WHERE state = 'running';",
  },
  {
    // `imports` has the progress of each file that is imported into an account, by the file's SHA-256. An import writes the plant
    // with the highest id first. `deletions` has, for each account that is being deleted, the paths of the files with its plants.
    sqlite: '0016-imports',
    postgres: '0010-imports',
    sql: `
      CREATE TABLE imports (
        account INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
        digest TEXT COLLATE "C" NOT NULL,
        plants INTEGER NOT NULL,
        done INTEGER NOT NULL,
        highest INTEGER,
        undoing INTEGER NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (account, digest)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE deletions (
        account INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
        file TEXT COLLATE "C" NOT NULL,
        complete INTEGER NOT NULL,
        PRIMARY KEY (account, file)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    // An update of the operating system may change its collations. Then the indexes that are sorted by these collations are
    // broken. The collation "C" compares bytes, and never changes.
    postgres: '0011-indexed-texts-by-bytes',
    postgresSql: `
      ALTER TABLE migrations ALTER COLUMN name TYPE TEXT COLLATE "C";
      ALTER TABLE counters ALTER COLUMN name TYPE TEXT COLLATE "C";
      ALTER TABLE accounts ALTER COLUMN name TYPE TEXT COLLATE "C";
      ALTER TABLE keys ALTER COLUMN id TYPE TEXT COLLATE "C", ALTER COLUMN prefix TYPE TEXT COLLATE "C", ALTER COLUMN digest TYPE TEXT COLLATE "C";
      ALTER TABLE plants ALTER COLUMN tag TYPE TEXT COLLATE "C";
      ALTER TABLE grants ALTER COLUMN tag TYPE TEXT COLLATE "C";
      ALTER TABLE idempotency_keys ALTER COLUMN key TYPE TEXT COLLATE "C";
      ALTER TABLE character_versions ALTER COLUMN digest TYPE TEXT COLLATE "C";
      ALTER TABLE character_use ALTER COLUMN digest TYPE TEXT COLLATE "C";
      ALTER TABLE requests ALTER COLUMN id TYPE TEXT COLLATE "C";
      ALTER TABLE replicas ALTER COLUMN id TYPE TEXT COLLATE "C";
      ALTER TABLE spend ALTER COLUMN subject TYPE TEXT COLLATE "C", ALTER COLUMN day TYPE TEXT COLLATE "C";
      ALTER TABLE limit_counts ALTER COLUMN subject TYPE TEXT COLLATE "C";
      ALTER TABLE limit_shares ALTER COLUMN subject TYPE TEXT COLLATE "C", ALTER COLUMN replica TYPE TEXT COLLATE "C";
      ALTER TABLE notices ALTER COLUMN id TYPE TEXT COLLATE "C";
      ALTER TABLE audit_records ALTER COLUMN id TYPE TEXT COLLATE "C", ALTER COLUMN account_name TYPE TEXT COLLATE "C";
    `,
  },
  {
    // `plant_versions` has a random version for each account. The version is renewed when the plants of the account change.
    // Replicas of the previous release write plants and do not renew the versions. So while such a replica lives, no version is
    // valid. After that, the versions from before stay invalid, because the epoch has changed.
    postgres: '0012-plant-versions',
    postgresSql: `
      CREATE TABLE plant_versions (
        account BIGINT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
        version TEXT COLLATE "C" NOT NULL
      );
      ALTER TABLE replicas ADD COLUMN renews_versions BIGINT NOT NULL DEFAULT 0;
      INSERT INTO counters VALUES ('plant_versions_epoch', 0);
    `,
  },
  {
    // Two counts of the prompt's tokens, such as "2048/8190": the upstream's count and our count. Null unless the upstream's
    // count is less than half of our count.
    sqlite: '0017-truncated-prompts',
    postgres: '0013-truncated-prompts',
    sql: 'ALTER TABLE requests ADD COLUMN upstream_truncated TEXT;',
  },
  {
    // This index is for the pages of an account's list of keys.
    sqlite: '0018-keys-by-account',
    sqliteSql: 'CREATE INDEX keys_by_account ON keys (account, created, id);',
  },
  {
    // A key counts in its subject: the id of the first key of its rotations. It also counts in the subject of its maker, the key
    // with limits that has made it over HTTP. Subjects outlive the rows of keys, so they are not foreign keys. Null means the
    // key's own id, and no maker. "maker" of a request is the subject of the maker of its key. Replicas of the previous release
    // count a key under its own id alone.
    sqlite: '0019-subjects-of-keys',
    postgres: '0014-subjects-of-keys',
    sql: `
      ALTER TABLE keys ADD COLUMN subject TEXT COLLATE "C";
      ALTER TABLE keys ADD COLUMN maker TEXT COLLATE "C";
      ALTER TABLE keys ADD COLUMN maker_limits TEXT;
      ALTER TABLE requests ADD COLUMN maker TEXT;
    `,
  },
  {
    // The expression of the first two indexes is the end of a key: `endOfRow` in `access/rows.ts`.
    sqlite: '0020-ends-of-keys',
    postgres: '0015-ends-of-keys',
    sql: `
      CREATE INDEX keys_by_end ON keys ((coalesce(CASE WHEN expires < revoked OR revoked IS NULL THEN expires ELSE revoked END, 9007199254740991)));
      CREATE INDEX keys_working ON keys (account, (coalesce(CASE WHEN expires < revoked OR revoked IS NULL THEN expires ELSE revoked END, 9007199254740991)));
      CREATE INDEX keys_admin ON keys (account) WHERE scopes LIKE '%admin%';
    `,
  },
  {
    // Keys that the service makes for itself and never shows. It makes each when it is first needed.
    sqlite: '0021-secrets',
    postgres: '0016-secrets',
    sql: 'CREATE TABLE secrets (name TEXT COLLATE "C" PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;',
  },
  {
    // "removed" is 1 after the plant of the row has been removed. An account keeps a bounded number of these rows. Replicas of the
    // previous release leave the column at 0.
    sqlite: '0022-keys-of-removed-plants',
    postgres: '0017-keys-of-removed-plants',
    sql: `
      ALTER TABLE idempotency_keys ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX idempotency_keys_by_plant ON idempotency_keys (account, plant);
      CREATE INDEX idempotency_keys_removed ON idempotency_keys (account, created, plant) WHERE removed = 1;
    `,
  },
]

/** The steps of 0.3.0. */
const release030: readonly Step[] = [
  {
    // Plants worth keeping. `folded` is the folded name, and `found` has the folded name, tag, species and place, each on a line.
    // Replicas of the previous release write neither; so a folded name that is null is written before the first search that needs
    // it. `place` and `archived` are details too, but lists are searched by them. `created` and `updated` of 0 stand for the time of
    // this migration. A plant has a row in `plant_details` if it has another detail or a photo, and a row in `care_logs` if it has
    // had an event. After the plant is deleted, `account` and `plant` of that row are null, and its events are removed in portions.
    // So are the pieces of a photo without a plant: the plant was deleted, the photo was replaced, or, if `begun` is not 0, the
    // photo is not complete yet. `holdings` counts what limits bound: `photo_bytes` are the bytes of all photos of an owner.
    // `kept_replies` has the replies to idempotency keys of changes of many rows. Dates are texts such as 2026-11-28, and seasons
    // such as 11-01.
    sqlite: '0023-plants-worth-keeping',
    postgres: '0018-plants-worth-keeping',
    sql: `
      ALTER TABLE accounts ADD COLUMN time_zone TEXT;
      ALTER TABLE plants ADD COLUMN folded TEXT COLLATE "C";
      ALTER TABLE plants ADD COLUMN found TEXT;
      ALTER TABLE plants ADD COLUMN place TEXT;
      ALTER TABLE plants ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE plants ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE plants ADD COLUMN updated INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE plants ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
      CREATE INDEX plants_by_name ON plants (account, folded, id);
      CREATE TABLE plant_details (
        account INTEGER NOT NULL,
        plant INTEGER NOT NULL,
        species TEXT,
        light TEXT,
        acquired TEXT,
        notes TEXT,
        photo_type TEXT,
        photo_bytes INTEGER,
        photo_digest TEXT,
        PRIMARY KEY (account, plant),
        FOREIGN KEY (account, plant) REFERENCES plants (account, id) ON DELETE CASCADE
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE photos (
        id TEXT COLLATE "C" PRIMARY KEY,
        owner INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        begun INTEGER NOT NULL,
        account INTEGER,
        plant INTEGER,
        UNIQUE (account, plant),
        FOREIGN KEY (account, plant) REFERENCES plants (account, id) ON DELETE SET NULL
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX photos_left ON photos (begun, owner) WHERE plant IS NULL;
      CREATE TABLE photo_pieces (
        photo TEXT COLLATE "C" NOT NULL REFERENCES photos (id),
        place INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (photo, place)
      ) STRICT;
      CREATE TABLE care_rules (
        account INTEGER NOT NULL,
        plant INTEGER NOT NULL,
        kind TEXT COLLATE "C" NOT NULL,
        every_days INTEGER,
        season_from TEXT,
        season_to TEXT,
        season_days INTEGER,
        set_on TEXT NOT NULL,
        last INTEGER,
        not_before TEXT,
        due TEXT COLLATE "C",
        PRIMARY KEY (account, plant, kind),
        FOREIGN KEY (account, plant) REFERENCES plants (account, id) ON DELETE CASCADE
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX care_due ON care_rules (account, due, plant, kind) WHERE due IS NOT NULL;
      CREATE TABLE care_logs (
        log INTEGER PRIMARY KEY,
        owner INTEGER NOT NULL,
        account INTEGER,
        plant INTEGER,
        UNIQUE (account, plant),
        FOREIGN KEY (account, plant) REFERENCES plants (account, id) ON DELETE SET NULL
      ) STRICT;
      CREATE INDEX care_logs_left ON care_logs (log) WHERE plant IS NULL;
      CREATE TABLE care_events (
        log INTEGER NOT NULL REFERENCES care_logs (log),
        id TEXT COLLATE "C" NOT NULL,
        at INTEGER NOT NULL,
        kind TEXT COLLATE "C" NOT NULL,
        note TEXT,
        value REAL,
        unit TEXT,
        PRIMARY KEY (log, id)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX care_events_by_time ON care_events (log, at, id);
      CREATE INDEX care_events_by_kind ON care_events (log, kind, at, id);
      CREATE TABLE care_feeds (
        account INTEGER PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
        digest TEXT COLLATE "C" NOT NULL UNIQUE,
        created INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE holdings (
        account INTEGER PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
        events INTEGER NOT NULL DEFAULT 0,
        photo_bytes INTEGER NOT NULL DEFAULT 0
      ) STRICT;
      CREATE TABLE kept_replies (
        account INTEGER NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
        key TEXT COLLATE "C" NOT NULL,
        request TEXT NOT NULL,
        reply TEXT NOT NULL,
        created INTEGER NOT NULL,
        PRIMARY KEY (account, key)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX kept_replies_by_age ON kept_replies (created);
      CREATE INDEX kept_replies_newest ON kept_replies (account, created, key);
      CREATE INDEX kept_replies_long ON kept_replies (account, created, key) WHERE length(reply) > 1024;
    `,
  },
]

const releases = [release010, release020, release030]

/** The schema's history in SQLite. */
export const migrations: readonly Migration[] = releases
  .flat()
  .flatMap(({ sqlite: name, sql = '', sqliteSql = '' }) =>
    name === undefined ? [] : { name, sql: sql.replaceAll(' COLLATE "C"', '') + sqliteSql },
  )

/** The schema's history in PostgreSQL. */
export const postgresMigrations: readonly Migration[] = releases.flatMap((steps, index) => {
  const servesFrom = releases.slice(0, index).flat().at(-1)?.postgres
  return steps.flatMap(({ postgres: name, sql = '', postgresSql = '' }) =>
    name === undefined ? [] : { name, sql: inPostgres(sql) + postgresSql, ...(servesFrom && { servesFrom }) },
  )
})

/** Translates statements of our migrations from SQLite's dialect to PostgreSQL's. */
function inPostgres(sql: string): string {
  return sql
    .replaceAll(' AUTOINCREMENT', '')
    .replaceAll(/\bINTEGER\b/g, 'BIGINT')
    .replaceAll(/\bBLOB\b/g, 'BYTEA')
    .replaceAll(/\bREAL\b/g, 'DOUBLE PRECISION')
    .replaceAll(/\) STRICT(?:, WITHOUT ROWID)?;/g, ');')
    .replaceAll('unixepoch()', 'floor(extract(epoch FROM now()))::BIGINT')
}

/** The names of the applied migrations. Undefined if there is no table `migrations`: then the database is new, or not ours. */
export function appliedMigrations(database: Database): readonly string[] | undefined {
  if (!database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'").get())
    return undefined
  return database.prepare<[], string>('SELECT name FROM migrations').pluck().all()
}

/**
 * The applied migrations that this version does not know. If there are any, a newer version has migrated the database. Names
 * before the first of the history are of steps that are part of the first step now.
 */
export function unknownMigrations(applied: readonly string[], history = migrations): readonly string[] {
  const known = new Set(history.map(({ name }) => name))
  return applied.filter((name) => !known.has(name) && name > (history[0]?.name ?? ''))
}
