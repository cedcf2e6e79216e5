import type { Database } from 'better-sqlite3'
import type { Recorder } from '../audit/record.ts'
import { runAudited } from '../audit/sqlite.ts'
import { type OutsideChanges, VersionedCache } from '../storage/caches.ts'
import { GroupCommit } from '../storage/group-commit.ts'
import { query, runScript, type Script } from '../storage/scripts.ts'
import { afterLongWrite } from '../storage/write-lock.ts'
import type { NameMatch, StoredCharacter } from './library/character.ts'
import { DatabaseCharacterStore } from './store.ts'

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

  override find(account: number, name: string, match: NameMatch): StoredCharacter | undefined {
    const question = `${match} ${account} ${name}`
    const known = this.#findCache.get(question)
    if (known !== undefined) return known ?? undefined
    const found = runScript(this.#database, this.findScript(account, name, match))
    return this.#findCache.set(question, found ?? null) ?? undefined
  }

  protected async read<T>(script: () => Script<T>): Promise<T> {
    return runScript(this.#database, script())
  }

  protected async write<T>(script: (record: Recorder) => Script<T>): Promise<T> {
    return await afterLongWrite(this.#database, () => {
      this.#findCache.forget()
      return runAudited(this.#database, script)
    })
  }

  protected writePieces<T>(script: () => Script<T>): Promise<T> {
    return this.#pieceCommit.run(() => runScript(this.#database, script()))
  }

  protected addPiece(upload: string, place: number, piece: Buffer): Script<unknown> {
    const insert = 'INSERT INTO card_pieces (upload, place, bytes) SELECT id, $2, $3 FROM uploads WHERE id = $1'
    return query(insert, upload, place, piece)
  }

  protected async piece(upload: string, place: number): Promise<Buffer | undefined> {
    const select = 'SELECT bytes FROM card_pieces WHERE upload = $1 AND place = $2'
    const [row] = runScript(this.#database, query<{ bytes: Buffer }>(select, upload, place))
    return row?.bytes
  }

  protected *lockUsage(): Script<void> {}

  protected async noteUnknown(): Promise<void> {}

  protected toStored(name: string): string {
    return name
  }

  protected fromStored(name: string): string {
    return name
  }
}
