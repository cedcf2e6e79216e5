/** One step of the schema's history: applied once, in order, in a transaction, and recorded by its name. */
export interface Migration {
  readonly name: string
  readonly sql: string
}

/** The schema's history. Append only: what has been released is never edited. */
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
]
