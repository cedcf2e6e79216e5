import { basename, join, relative } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Config } from '../../config.ts'
import type { ApiError } from '../../errors.ts'
import { nearest } from '../../text.ts'
import { noAccount, type Work, workAtOnce } from '../../work/work.ts'
import type { KeptCard } from '../cards/kept-card.ts'
import type { KeptBook } from '../lore/kept-book.ts'
import {
  type Character,
  type CharacterStore,
  compareNames,
  type FoundCharacter,
  foldName,
  type ListedCharacter,
  parseCharacterName,
  unknownCharacter,
  type VersionKey,
} from './character.ts'
import { DigestCache } from './digest-cache.ts'
import { findCharacter, originOf, type PublicCard, PublicCards, starterFolder } from './lookup.ts'
import { type FolderFile, realPath, type UnreadableFile, WatchedFolder } from './watched-folder.ts'

/** The most characters of one query. */
const rowsOfQuery = 200

/** The most names that are compared with a mistyped name. */
const maxNames = 500

/** The options of a library. */
export interface LibraryOptions {
  /** The accounts' own characters. */
  readonly store: CharacterStore
  /** Folders of cards. If cards have the same name, the card of the first folder counts. A starter counts last. */
  readonly folders?: readonly string[]
  /** Folders of world books, which apply to every character. If files have the same name, the file of the first folder counts. */
  readonly lorebooks?: readonly string[]
  /** The most bytes of the file of a card, or of a world book. */
  readonly maxCardBytes: number
  readonly logger?: LibraryLogger
  /** Called when a name was resolved to a version of an upload. */
  readonly onUse?: (version: VersionKey) => void
  /** Runs `read` while `bytes` of an account's card are counted as in flight. @throws ApiError 503 if too many are in flight */
  readonly during?: During
  /** Opens the work to read cards and lorebooks, by account. By default each card is read here. */
  readonly workOf?: (account: number | null) => Work
  /** The system clock in milliseconds, which is compared with the modification times of files. */
  readonly now?: () => number
}

/** See `BytesInFlight.during`. */
type During = <T>(account: number, bytes: number, read: () => Promise<T>) => Promise<T>

/** The library logs counts, file names and reasons, never the content of a card. */
export interface LibraryLogger {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

/** The most bytes of JSON of the cards in the cache. */
const cacheBytes = 32 * 1024 ** 2

/** The characters that can be played: first an account's uploads, then the operator's folder, then the starters. */
export class CharacterLibrary {
  readonly #store: CharacterStore
  readonly #folders: readonly WatchedFolder<PublicCard>[]
  readonly #lorebooks: readonly WatchedFolder<KeptBook>[]
  readonly #logger: LibraryLogger | undefined
  readonly #workOf: (account: number | null) => Work
  readonly #onUse: ((version: VersionKey) => void) | undefined
  readonly #during: During
  readonly #cache = new DigestCache<KeptCard>(cacheBytes, ({ document }) => document.length)
  #public = new PublicCards([])
  #worldBooks: readonly KeptBook[] = []
  #hiddenBooks: readonly UnreadableFile[] = []
  #reported = new Set<string>()
  #scanning: Promise<void> | undefined
  #isScanned = false
  #isClosed = false

  constructor({ store, folders = [], lorebooks = [], maxCardBytes, logger, onUse, ...options }: LibraryOptions) {
    const { workOf = workAtOnce, during = (_account, _bytes, read) => read(), now = Date.now } = options
    this.#during = during
    this.#store = store
    this.#workOf = workOf
    this.#onUse = onUse
    this.#logger = logger
    const cards = { extensions: ['.json', '.png', '.charx'], maxFileBytes: maxCardBytes, read: this.#readCard, now }
    const paths = new Set(folders.map(realPath))
    this.#folders = [...paths].map((path) => new WatchedFolder(path, cards))
    const books = { extensions: ['.json'], maxFileBytes: maxCardBytes, read: this.#readWorldBook, now }
    this.#lorebooks = [...new Set(lorebooks.map(realPath))].map((path) => new WatchedFolder(path, books))
  }

  /** The world books, in the order of their file names. */
  get worldBooks(): readonly KeptBook[] {
    return this.#worldBooks
  }

  /** Unreadable files, and hidden files: cards with another card's name, and lorebook files with another file's name. */
  get unreadable(): readonly UnreadableFile[] {
    const folders = [...this.#folders, ...this.#lorebooks]
    return [...folders.flatMap(({ unreadable }) => unreadable), ...this.#public.hidden, ...this.#hiddenBooks]
  }

  /** Reads the changes in the folders, and logs the result. */
  async load(): Promise<void> {
    await this.rescan()
    this.report()
  }

  /** Reads the changes in the folders. */
  async rescan(): Promise<void> {
    // The running scan may have read a file before its latest change, so a new scan begins after the running scan.
    const scan = async () => {
      const changes = await Promise.all(this.#folders.map((folder) => folder.scan()))
      if (changes.includes(true)) this.#public = new PublicCards(this.#folders.flatMap(({ files }) => files))
      const newBooks = await Promise.all(this.#lorebooks.map((folder) => folder.scan()))
      if (newBooks.includes(true)) this.#setWorldBooks(this.#lorebooks.flatMap(({ files }) => files))
    }
    const scanning = (this.#scanning ?? Promise.resolve()).then(scan)
    this.#scanning = scanning.catch(() => {})
    await scanning
    this.#isScanned = true
  }

  /** Watches the folders for changes, until `close`. */
  watch(): void {
    // The service may be closed before the first scan ends.
    if (this.#isClosed) return
    const onChange = () => {
      const before = [this.#public, this.#worldBooks, this.unreadable.map(faultKey).join('\n')]
      this.rescan().then(
        () => {
          const after = [this.#public, this.#worldBooks, this.unreadable.map(faultKey).join('\n')]
          if (after.some((part, index) => part !== before[index]))
            this.report('the characters or lorebooks have changed')
        },
        (error: unknown) => this.#logger?.error({ err: error }, 'the characters and lorebooks cannot be read again'),
      )
    }
    for (const folder of this.#folders) folder.watch(onChange)
    for (const folder of this.#lorebooks) folder.watch(onChange)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const folder of this.#folders) folder.close()
    for (const folder of this.#lorebooks) folder.close()
    await this.#scanning
  }

  /**
   * Resolves a name to a character, in the order of `findCharacter`. `name@sha256:…` pins a version.
   * @param account the account whose uploads are searched; null to search no uploads
   * @returns undefined for an unknown name
   */
  async resolve(account: number | null, text: string): Promise<Character | undefined> {
    if (!this.#isScanned) await this.#scanned()
    // A file may have changed since the scan of its folder. Then the folders are scanned once more.
    for (const isLast of [false, true]) {
      const finding = findCharacter(this.#store, this.#public, account, text)
      const found = finding instanceof Promise ? await finding : finding
      if (!found) return undefined
      const load = async () =>
        this.#during(account ?? noAccount, await found.size(), () => loadCard(found, this.#workOf(account)))
      const kept = this.#cache.get(account, found.digest, load)
      const card = kept instanceof Promise ? await kept : kept
      if (card) {
        this.#noteUse(account, found)
        return { ...found, card }
      }
      if (!isLast) await this.rescan()
    }
    return undefined
  }

  #noteUse(account: number | null, { name, origin, digest }: FoundCharacter): void {
    if (origin === 'account' && account !== null) this.#onUse?.({ account, name, digest })
  }

  /** Resolves a name like `resolve`, without reading the card. */
  async find(account: number | null, name: string): Promise<FoundCharacter | undefined> {
    await this.#scanned()
    return await findCharacter(this.#store, this.#public, account, name)
  }

  /**
   * At most `limit` characters that an account can play, after the name `after`, in the order of `compareNames`.
   * @param tag only characters with this tag, compared without regard to case
   */
  async list(account: number | null, after: string, limit: number, tag?: string): Promise<readonly ListedCharacter[]> {
    await this.#scanned()
    const wanted = tag === undefined ? undefined : foldName(tag)
    const found: ListedCharacter[] = []
    for (let from = after; ; ) {
      // For a tag, whole pages are read: to find a rare tag with pages of a small `limit`, hundreds of pages would be read.
      const rows = wanted === undefined ? Math.min(limit - found.length, rowsOfQuery) : rowsOfQuery
      const own = account === null ? [] : await this.#store.list(account, from, rows)
      const page = this.#withPublic(own, from, rows)
      for (const character of page) {
        const isWanted = wanted === undefined || character.about.tags.some((each) => foldName(each) === wanted)
        if (isWanted) found.push(character)
      }
      const last = page.at(-1)
      if (!last || page.length < rows || found.length >= limit) return found.slice(0, limit)
      from = last.name
      // SQLite answers at once, so without a pause a rare tag among many characters would block other requests.
      await setImmediate()
    }
  }

  /** The names of the first characters that an account can play, to find the one that a mistyped name means. */
  async names(account: number | null): Promise<readonly string[]> {
    return (await this.list(account, '', maxNames)).map(({ name }) => name)
  }

  /** The error for a name that does not resolve, with the most similar name that the account can play. */
  async unknown(account: number | null, name: string): Promise<ApiError> {
    return unknownCharacter(nearest(parseCharacterName(name).name, await this.names(account)))
  }

  /** The first `limit` of an account's characters and the public ones, which come after the name `after`. */
  #withPublic(own: readonly ListedCharacter[], after: string, limit: number): readonly ListedCharacter[] {
    const names = new Set(own.map(({ name }) => name))
    const others = this.#public.listed.filter(({ name }) => compareNames(name, after) > 0 && !names.has(name))
    return [...own, ...others].sort((a, b) => compareNames(a.name, b.name)).slice(0, limit)
  }

  /** Waits for the first scan of the folders, and begins it if no scan is running. */
  async #scanned(): Promise<void> {
    if (!this.#isScanned) await (this.#scanning ?? this.rescan())
  }

  /** The operator's own card of exactly this name. */
  inFolder(name: string): PublicCard | undefined {
    const [card] = this.#public.find(name, 'exact')
    return card?.origin === 'folder' ? card : undefined
  }

  readonly #readCard = async (bytes: Buffer, file: string): Promise<PublicCard> => {
    const { folderCardJob, runOnCard } = await import('./jobs.ts')
    const { name, about, kept } = await runOnCard(this.#workOf(null), 'character', folderCardJob, bytes, bytes)
    this.#cache.add(kept.digest, kept)
    return { name, origin: originOf(file), digest: kept.digest, about, file }
  }

  readonly #readWorldBook = async (bytes: Buffer): Promise<KeptBook> => {
    const { keepBookJob, runOnCard } = await import('./jobs.ts')
    return await runOnCard(this.#workOf(null), 'lorebook', keepBookJob, bytes, bytes)
  }

  #setWorldBooks(files: readonly FolderFile<KeptBook>[]): void {
    const byName = new Map<string, FolderFile<KeptBook>>()
    const hidden: UnreadableFile[] = []
    for (const found of files) {
      const first = byName.get(basename(found.file))
      if (!first) byName.set(basename(found.file), found)
      else hidden.push({ file: found.file, reason: `It has the same name as ${first.file}, which comes first.` })
    }
    const names = [...byName.keys()].sort()
    this.#worldBooks = names.flatMap((name) => byName.get(name)?.value ?? [])
    this.#hiddenBooks = hidden
  }

  /** Logs the numbers of characters and lorebooks, and unreadable files. A file is logged again only for another reason. */
  report(message = 'the characters are read'): void {
    const { unreadable } = this
    this.#logger?.info({ characters: this.#public.listed.length, lorebooks: this.#worldBooks.length }, message)
    for (const fault of unreadable.filter((each) => !this.#reported.has(faultKey(each)))) {
      this.#logger?.warn({ file: relative('.', fault.file), reason: fault.reason }, 'a file is not read')
    }
    this.#reported = new Set(unreadable.map(faultKey))
  }
}

function faultKey({ file, reason }: UnreadableFile): string {
  return `${file}\n${reason}`
}

/** Reads a card to play it; undefined if it was removed or changed since it was found. */
async function loadCard({ read }: FoundCharacter, work: Work): Promise<KeptCard | undefined> {
  const bytes = await read()
  if (!bytes) return undefined
  const { keepCardJob, runOnCard } = await import('./jobs.ts')
  return await runOnCard(work, 'character', keepCardJob, bytes, bytes)
}

/** Creates the library of a service or of a command. It reads no file yet. */
export function createLibrary(
  {
    configDirectory,
    dataDirectory,
    cardBodyLimit,
  }: Pick<Config, 'configDirectory' | 'dataDirectory' | 'cardBodyLimit'>,
  store: CharacterStore,
  observer: Pick<LibraryOptions, 'logger' | 'onUse' | 'workOf' | 'during'> = {},
): CharacterLibrary {
  return new CharacterLibrary({
    store,
    // The starters' folder comes last. In the repository, `characters` of the default data folder is the same folder.
    folders: [join(configDirectory, 'characters'), join(dataDirectory, 'characters'), starterFolder],
    lorebooks: [join(configDirectory, 'lorebooks'), join(dataDirectory, 'lorebooks')],
    maxCardBytes: cardBodyLimit,
    ...observer,
  })
}
