import type { Migration } from '../migrations.ts'

/**
 * The history of the schema in PostgreSQL. The SQL is portable: no extension, no sequence, no advisory lock. A released step is
 * never edited. Each step keeps everything that the previous release reads and writes, so that replicas can be replaced one by
 * one. `servesFrom` is the last migration of the previous release.
 */
export const postgresMigrations: readonly Migration[] = [
  {
    name: '0001-all-stores',
    sql: `
      CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
      INSERT INTO counters VALUES ('accounts', 0);
      CREATE TABLE accounts (
        id BIGINT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        created BIGINT NOT NULL,
        suspended BIGINT,
        limits TEXT NOT NULL DEFAULT '{}'
      );
      CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        account BIGINT NOT NULL REFERENCES accounts (id),
        name TEXT,
        prefix TEXT NOT NULL UNIQUE,
        digest TEXT NOT NULL UNIQUE,
        scopes TEXT NOT NULL,
        created BIGINT NOT NULL,
        expires BIGINT,
        revoked BIGINT,
        limits TEXT NOT NULL DEFAULT '{}',
        last_used BIGINT
      );
      CREATE INDEX keys_by_account ON keys (account, created);
      CREATE TABLE plants (
        account BIGINT NOT NULL REFERENCES accounts (id),
        id BIGINT NOT NULL,
        name TEXT NOT NULL,
        tag TEXT,
        PRIMARY KEY (account, id)
      );
      CREATE INDEX plants_by_tag ON plants (account, tag, id);
      CREATE TABLE grants (
        owner BIGINT NOT NULL REFERENCES accounts (id),
        grantee BIGINT NOT NULL REFERENCES accounts (id),
        tag TEXT NOT NULL,
        created BIGINT NOT NULL,
        PRIMARY KEY (grantee, owner, tag)
      );
      CREATE TABLE idempotency_keys (
        account BIGINT NOT NULL REFERENCES accounts (id),
        key TEXT NOT NULL,
        request TEXT NOT NULL,
        plant BIGINT NOT NULL,
        name TEXT NOT NULL,
        tag TEXT,
        created BIGINT NOT NULL,
        PRIMARY KEY (account, key)
      );
      CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created);
      CREATE TABLE characters (
        account BIGINT NOT NULL REFERENCES accounts (id),
        name TEXT COLLATE "C" NOT NULL,
        folded TEXT COLLATE "C" NOT NULL,
        digest TEXT NOT NULL,
        about TEXT NOT NULL,
        created BIGINT NOT NULL,
        updated BIGINT NOT NULL,
        PRIMARY KEY (account, name)
      );
      CREATE INDEX characters_by_folded_name ON characters (account, folded, name);
      CREATE TABLE character_versions (
        account BIGINT NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        digest TEXT NOT NULL,
        source BYTEA NOT NULL,
        created BIGINT NOT NULL,
        PRIMARY KEY (account, name, digest),
        FOREIGN KEY (account, name) REFERENCES characters (account, name) ON DELETE CASCADE
      );
      CREATE TABLE requests (
        id TEXT PRIMARY KEY,
        account BIGINT NOT NULL,
        key_id TEXT NOT NULL,
        key_prefix TEXT NOT NULL,
        model TEXT NOT NULL,
        model_used TEXT,
        character TEXT,
        created BIGINT NOT NULL,
        reserved_tokens BIGINT NOT NULL,
        prompt_tokens BIGINT NOT NULL,
        completion_tokens BIGINT NOT NULL,
        tokens_exact BIGINT NOT NULL,
        first_token_ms BIGINT,
        total_ms BIGINT NOT NULL,
        retries BIGINT NOT NULL,
        state TEXT NOT NULL,
        replica TEXT
      );
      CREATE TABLE replicas (id TEXT PRIMARY KEY, seen BIGINT NOT NULL);
      CREATE INDEX requests_by_account ON requests (account, created);
      CREATE INDEX requests_by_age ON requests (created);
      CREATE TABLE spend (
        subject TEXT NOT NULL,
        day TEXT NOT NULL,
        tokens BIGINT NOT NULL,
        PRIMARY KEY (subject, day)
      );
    `,
  },
  {
    name: '0002-shared-limits',
    servesFrom: '0001-all-stores',
    sql: `
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
  {
    // Like 0009-scope-keys of SQLite. Replicas of the previous release do not know the scope "keys", and ignore it in a key.
    name: '0003-scope-keys',
    servesFrom: '0002-shared-limits',
    sql: `
      CREATE TABLE notices (
        id TEXT PRIMARY KEY,
        text TEXT NOT NULL
      );
      INSERT INTO notices (id, text)
        SELECT keys.id, 'The key ' || keys.prefix || ' of the account "' || accounts.name || '" has the scope keys in place of admin, '
          || 'with all scopes that a tenant can have: the CHANGELOG says why, and how to give admin back.'
        FROM keys JOIN accounts ON accounts.id = keys.account
        WHERE ',' || keys.scopes || ',' LIKE '%,admin,%' AND keys.account IS DISTINCT FROM (
          SELECT min(accounts.id) FROM keys JOIN accounts ON accounts.id = keys.account
          WHERE ',' || keys.scopes || ',' LIKE '%,admin,%' AND keys.revoked IS NULL AND accounts.suspended IS NULL
            AND (keys.expires IS NULL OR keys.expires > EXTRACT(EPOCH FROM now()))
        );
      UPDATE keys SET scopes = 'plants:read,plants:write,chat,characters:write,keys' WHERE id IN (SELECT id FROM notices);
    `,
  },
  {
    // A replica of the previous release uploads versions without a row in `character_use`. The next purge adds the row. An upload
    // locks the row of its account in `upload_locks`, so an account has one upload at a time.
    name: '0004-character-use',
    servesFrom: '0002-shared-limits',
    sql: `
      CREATE TABLE character_use (
        account BIGINT NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        digest TEXT NOT NULL,
        bytes BIGINT NOT NULL,
        uploaded BIGINT NOT NULL,
        used BIGINT,
        PRIMARY KEY (account, name, digest),
        FOREIGN KEY (account, name, digest) REFERENCES character_versions (account, name, digest) ON DELETE CASCADE
      );
      INSERT INTO character_use (account, name, digest, bytes, uploaded, used)
      SELECT account, name, digest, octet_length(source), created, floor(extract(epoch FROM now()))::BIGINT
      FROM character_versions;
      CREATE TABLE upload_locks (
        account BIGINT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE
      );
    `,
  },
  {
    name: '0005-models-of-keys',
    servesFrom: '0002-shared-limits',
    sql: `
      ALTER TABLE accounts ADD COLUMN models TEXT;
      ALTER TABLE keys ADD COLUMN models TEXT;
    `,
  },
  {
    name: '0006-audit',
    servesFrom: '0002-shared-limits',
    sql: `
      INSERT INTO counters VALUES ('audit_records', 0);
      CREATE TABLE audit_records (
        seq BIGINT PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        at BIGINT NOT NULL,
        actor TEXT NOT NULL,
        actor_key TEXT,
        actor_account TEXT,
        address TEXT,
        action TEXT NOT NULL,
        target TEXT,
        account BIGINT,
        account_name TEXT,
        before TEXT,
        after TEXT
      );
      CREATE INDEX audit_records_by_account ON audit_records (account_name, seq);
      CREATE INDEX audit_records_by_age ON audit_records (at);
    `,
  },
  {
    // `microsecond` is the time of a request within its second. The column gives the requests of one second an order.
    name: '0007-requests-by-time',
    servesFrom: '0002-shared-limits',
    sql: 'ALTER TABLE requests ADD COLUMN microsecond BIGINT NOT NULL DEFAULT 0;',
  },
  {
    // Like 0014-card-pieces of SQLite. Replicas of the previous release read a card in pieces as an empty file, and answer 400.
    name: '0008-card-pieces',
    servesFrom: '0002-shared-limits',
    sql: `
      CREATE TABLE uploads (
        id TEXT COLLATE "C" PRIMARY KEY,
        begun BIGINT NOT NULL,
        bytes BIGINT NOT NULL,
        account BIGINT,
        name TEXT COLLATE "C",
        digest TEXT COLLATE "C",
        FOREIGN KEY (account, name, digest) REFERENCES character_versions (account, name, digest) ON DELETE SET NULL
      );
      CREATE UNIQUE INDEX uploads_by_version ON uploads (account, name, digest);
      CREATE INDEX uploads_left ON uploads (begun) WHERE account IS NULL;
      CREATE TABLE card_pieces (
        upload TEXT COLLATE "C" NOT NULL REFERENCES uploads (id),
        place BIGINT NOT NULL,
        bytes BYTEA NOT NULL,
        PRIMARY KEY (upload, place)
      );
    `,
  },
  {
    // Like 0015-usage-by-day of SQLite, with the index of running requests, which SQLite has since 0007-ledger. The requests of
    // replicas of the previous release are summed up too.
    name: '0009-usage-by-day',
    servesFrom: '0002-shared-limits',
    sql: `
      CREATE TABLE usage_days (
        account BIGINT NOT NULL,
        day TEXT COLLATE "C" NOT NULL,
        digest TEXT COLLATE "C" NOT NULL,
        key_prefix TEXT NOT NULL,
        model TEXT NOT NULL,
        character TEXT,
        requests BIGINT NOT NULL,
        prompt_tokens BIGINT NOT NULL,
        completion_tokens BIGINT NOT NULL,
        failed BIGINT NOT NULL,
        PRIMARY KEY (account, day, digest)
      );
      CREATE INDEX usage_days_by_age ON usage_days (day);
      ALTER TABLE requests ADD COLUMN summed BIGINT NOT NULL DEFAULT 0;
      CREATE INDEX requests_unsummed ON requests (account, created) WHERE summed = 0 AND state <> 'running';
      CREATE INDEX requests_running ON requests (id) WHERE state = 'running';
    `,
  },
  {
    // Like 0016-imports of SQLite.
    name: '0010-imports',
    servesFrom: '0002-shared-limits',
    sql: `
      CREATE TABLE imports (
        account BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
        digest TEXT COLLATE "C" NOT NULL,
        plants BIGINT NOT NULL,
        done BIGINT NOT NULL,
        highest BIGINT,
        undoing BIGINT NOT NULL,
        created BIGINT NOT NULL,
        PRIMARY KEY (account, digest)
      );
      CREATE TABLE deletions (
        account BIGINT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
        file TEXT COLLATE "C" NOT NULL,
        complete BIGINT NOT NULL,
        PRIMARY KEY (account, file)
      );
    `,
  },
  {
    // An update of the operating system may change its collations. Then the indexes that are sorted by these collations are
    // broken. The collation "C" compares bytes, and never changes.
    name: '0011-indexed-texts-by-bytes',
    servesFrom: '0002-shared-limits',
    sql: `
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
    name: '0012-plant-versions',
    servesFrom: '0002-shared-limits',
    sql: `
      CREATE TABLE plant_versions (
        account BIGINT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
        version TEXT COLLATE "C" NOT NULL
      );
      ALTER TABLE replicas ADD COLUMN renews_versions BIGINT NOT NULL DEFAULT 0;
      INSERT INTO counters VALUES ('plant_versions_epoch', 0);
    `,
  },
  {
    // Like 0017-truncated-prompts of SQLite.
    name: '0013-truncated-prompts',
    servesFrom: '0002-shared-limits',
    sql: 'ALTER TABLE requests ADD COLUMN upstream_truncated TEXT;',
  },
  {
    // Like 0019-subjects-of-keys of SQLite. Replicas of the previous release count a key under its own id alone.
    name: '0014-subjects-of-keys',
    servesFrom: '0002-shared-limits',
    sql: `
      ALTER TABLE keys ADD COLUMN subject TEXT COLLATE "C";
      ALTER TABLE keys ADD COLUMN maker TEXT COLLATE "C";
      ALTER TABLE keys ADD COLUMN maker_limits TEXT;
      ALTER TABLE requests ADD COLUMN maker TEXT;
    `,
  },
  {
    // Like 0020-ends-of-keys of SQLite.
    name: '0015-ends-of-keys',
    servesFrom: '0002-shared-limits',
    sql: `
      CREATE INDEX keys_by_end ON keys ((coalesce(CASE WHEN expires < revoked OR revoked IS NULL THEN expires ELSE revoked END, 9007199254740991)));
      CREATE INDEX keys_working ON keys (account, (coalesce(CASE WHEN expires < revoked OR revoked IS NULL THEN expires ELSE revoked END, 9007199254740991)));
      CREATE INDEX keys_admin ON keys (account) WHERE scopes LIKE '%admin%';
    `,
  },
  {
    // Like 0021-secrets of SQLite.
    name: '0016-secrets',
    servesFrom: '0002-shared-limits',
    sql: 'CREATE TABLE secrets (name TEXT COLLATE "C" PRIMARY KEY, value TEXT NOT NULL);',
  },
  {
    // Like 0022-keys-of-removed-plants of SQLite. Replicas of the previous release leave the column at 0.
    name: '0017-keys-of-removed-plants',
    servesFrom: '0002-shared-limits',
    sql: `
      ALTER TABLE idempotency_keys ADD COLUMN removed BIGINT NOT NULL DEFAULT 0;
      CREATE INDEX idempotency_keys_by_plant ON idempotency_keys (account, plant);
      CREATE INDEX idempotency_keys_removed ON idempotency_keys (account, created, plant) WHERE removed = 1;
    `,
  },
]
