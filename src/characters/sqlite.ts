import type { Database } from 'better-sqlite3'
import { withAuditRecords } from '../audit/sqlite.ts'
import { type OutsideChanges, VersionedCache } from '../storage/caches.ts'
import { GroupCommit } from '../storage/group-commit.ts'
import { query, runSteps, type Steps } from '../storage/steps.ts'
import type { NameMatch, StoredCharacter } from './library/character.ts'
import { DatabaseCharacterStore, type Recorder } from './store.ts'

/** Uploaded characters in SQLite. */
export class SqliteCharacterStore extends DatabaseCharacterStore {
  // SQLite has one writer at a time, so rows need no locks.
  protected readonly forUpdate = ''
  protected readonly forKeyShare = ''
  readonly #database: Database
  /** Pieces need no fsync (`NORMAL`), because the commit of the version syncs all earlier writes too. */
  readonly #pieceCommit: GroupCommit
  /** Results of `find`, also negative results: each chat request calls `find`, and usually the character is not an upload. */
  readonly #findCache: VersionedCache<StoredCharacter | null>

  constructor(database: Database, changes: OutsideChanges) {
    super(1)
    this.#database = database
    this.#pieceCommit = new GroupCommit(database, 'NORMAL')
    this.#findCache = new VersionedCache(changes)
  }

  override async find(account: number, name: string, match: NameMatch): Promise<StoredCharacter | undefined> {
    const question = `${match} ${account} ${name}`
    const known = this.#findCache.get(question)
    if (known !== undefined) return known ?? undefined
    const found = runSteps(this.#database, this.findSteps(account, name, match))
    return this.#findCache.set(question, found ?? null) ?? undefined
  }

  protected async read<T>(steps: () => Steps<T>): Promise<T> {
    return runSteps(this.#database, steps())
  }

  protected async write<T>(steps: (record: Recorder) => Steps<T>): Promise<T> {
    this.#findCache.forget()
    return withAuditRecords(this.#database, (record) =>
      runSteps(
        this.#database,
        steps(function* (by, entry) {
          yield () => record(by, entry)
        }),
      ),
    )
  }

  protected writePieces<T>(steps: () => Steps<T>): Promise<T> {
    return this.#pieceCommit.run(() => runSteps(this.#database, steps()))
  }

  protected addPiece(upload: string, place: number, piece: Buffer): Steps<unknown> {
    const insert = 'INSERT INTO card_pieces (upload, place, bytes) SELECT id, $2, $3 FROM uploads WHERE id = $1'
    return query(insert, upload, place, piece)
  }

  protected async piece(upload: string, place: number): Promise<Buffer | undefined> {
    const select = 'SELECT bytes FROM card_pieces WHERE upload = $1 AND place = $2'
    const [row] = runSteps(this.#database, query<{ bytes: Buffer }>(select, upload, place))
    return row?.bytes
  }

  protected *lockUsage(): Steps<void> {}

  protected async noteUnknown(): Promise<void> {}

  protected toStored(name: string): string {
    return name
  }

  protected fromStored(name: string): string {
    return name
  }
}
