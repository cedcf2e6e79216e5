import { basename, join, relative } from 'node:path'
import type { Config } from '../../config.ts'
import { freeBytes } from '../../http/body.ts'
import { nobody, type Work, workAtOnce } from '../../work.ts'
import type { Lorebook } from '../lore/lorebook.ts'
import { CardCache, memoryOf } from './card-cache.ts'
import {
  type Character,
  type CharacterStore,
  compareNames,
  foldName,
  type ListedCharacter,
  pinnedName,
  type VersionKey,
} from './character.ts'
import { type Found, findCharacter } from './lookup.ts'
import { originOf, type PublicCard, PublicCards, starterFolder } from './public-cards.ts'
import { type FolderFile, realPath, type UnreadableFile, WatchedFolder } from './watched-folder.ts'

/** What the library is opened with. */
export interface LibraryOptions {
  /** The accounts' own characters. */
  readonly store: CharacterStore
  /** Folders of cards; of equal names the first folder's is played. Two that are one are read once. */
  readonly folders?: readonly string[]
  /** Folders of the world books, which apply to every character; of equal file names the first folder's does. */
  readonly lorebooks?: readonly string[]
  /** Bytes. */
  readonly maxCardBytes: number
  readonly logger?: LibraryLogger
  /** Is told of each version of an account's upload that is looked up. */
  readonly onUse?: (version: VersionKey) => void
  /** Does the work that needs so many bytes of an account's card, or refuses it where there is no room for them. */
  readonly during?: Holding
  /** The work of reading cards and lorebooks, for an account or for nobody; at once without it. */
  readonly workOf?: (account: number | null) => Work
  /** The time that files' times are compared with, in milliseconds: the machine's clock. */
  readonly now?: () => number
}

/** See `BytesInFlight.during`. */
type Holding = <T>(account: number, bytes: number, work: () => Promise<T>) => Promise<T>

/** The library tells of counts, of file names and of reasons; never of what is in a card. */
export interface LibraryLogger {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

/** Bytes of source whose cards are kept ready. */
const cacheLimit = 96 * 1024 ** 2

/** The characters that can be played: an account's uploads first, then those of the operator's folder, then the starters. */
export class CharacterLibrary {
  readonly #store: CharacterStore
  readonly #folders: readonly WatchedFolder<PublicCard>[]
  readonly #lorebooks: readonly WatchedFolder<Lorebook>[]
  readonly #logger: LibraryLogger | undefined
  readonly #workOf: (account: number | null) => Work
  readonly #onUse: ((version: VersionKey) => void) | undefined
  readonly #during: Holding
  readonly #cache: CardCache
  #public = new PublicCards([])
  #worldBooks: readonly Lorebook[] = []
  #hiddenBooks: readonly UnreadableFile[] = []
  #told = new Set<string>()
  #scanning: Promise<void> | undefined
  #isScanned = false
  #isClosed = false

  constructor({ store, folders = [], lorebooks = [], maxCardBytes, logger, onUse, ...options }: LibraryOptions) {
    const { workOf = workAtOnce, during = (_account, _bytes, work) => work(), now = Date.now } = options
    this.#during = during
    this.#cache = new CardCache(cacheLimit)
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

  /** The world books, in the order of their files' names. */
  get worldBooks(): readonly Lorebook[] {
    return this.#worldBooks
  }

  /** Files that hold no card or no lorebook, and cards that another of the same name hides. */
  get unreadable(): readonly UnreadableFile[] {
    const folders = [...this.#folders, ...this.#lorebooks]
    return [...folders.flatMap(({ unreadable }) => unreadable), ...this.#public.hidden, ...this.#hiddenBooks]
  }

  /** Reads what has changed in the folders, and logs what came of it. */
  async load(): Promise<void> {
    await this.rescan()
    this.report()
  }

  /** Reads what has changed in the folders. */
  async rescan(): Promise<void> {
    // One after the other: a scan that is under way may have passed by what has just changed.
    const scan = async () => {
      const changes = await Promise.all(this.#folders.map((folder) => folder.scan()))
      if (changes.includes(true)) this.#public = new PublicCards(this.#folders.flatMap(({ files }) => files))
      const newBooks = await Promise.all(this.#lorebooks.map((folder) => folder.scan()))
      if (newBooks.includes(true)) this.#putBooks(this.#lorebooks.flatMap(({ files }) => files))
    }
    const scanning = (this.#scanning ?? Promise.resolve()).then(scan)
    this.#scanning = scanning.catch(() => {})
    await scanning
    this.#isScanned = true
  }

  /** Follows what changes in the folders until `close`. */
  watch(): void {
    // The first reading may end after the service has.
    if (this.#isClosed) return
    const onChange = () => {
      const before = [this.#public, this.#worldBooks, this.unreadable.map(told).join('\n')]
      this.rescan().then(
        () => {
          const after = [this.#public, this.#worldBooks, this.unreadable.map(told).join('\n')]
          if (after.some((part, index) => part !== before[index])) this.report('the characters have changed')
        },
        (error: unknown) => this.#logger?.error({ err: error }, 'the characters cannot be read again'),
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
   * The character that an account means by a name: of exactly this name, else of this one whatever its letters' case;
   * the account's own before the folder's before the starters. `name@sha256:…` means that very version.
   * @param account null for nobody's: uploads are not looked at
   */
  async resolve(account: number | null, name: string): Promise<Character | undefined> {
    if (!this.#isScanned) await this.#scanned()
    // A file may have changed since its folder was read: then what is there now is looked at, once.
    for (const isLast of [false, true]) {
      const found = await findCharacter(this.#store, this.#public, account, name)
      if (!found) return undefined
      const { origin, digest } = found
      const load = async () =>
        this.#during(account ?? nobody, await found.size(), () => loadCard(found, this.#workOf(account)))
      const card = await this.#cache.get(account, digest, load).catch(orGone)
      if (card) {
        if (origin === 'account' && account !== null) this.#onUse?.({ account, name: found.name, digest })
        return { name: found.name, origin, digest, card }
      }
      if (!isLast) await this.rescan()
    }
    return undefined
  }

  /** The character that an account means by a name, as `resolve`, without reading its card. */
  async find(account: number | null, name: string): Promise<Found | undefined> {
    await this.#scanned()
    return await findCharacter(this.#store, this.#public, account, name)
  }

  /** How many bytes the source of a character has that has been found; 0 when it has gone since. */
  async size(account: number | null, { name, digest }: Pick<Character, 'name' | 'digest'>): Promise<number> {
    const found = await findCharacter(this.#store, this.#public, account, pinnedName(name, digest))
    return (await found?.size()) ?? 0
  }

  /** The source bytes of a character that has been found; undefined when it has gone since. */
  async source(
    account: number | null,
    { name, digest }: Pick<Character, 'name' | 'digest'>,
  ): Promise<Buffer | undefined> {
    await this.#scanned()
    const found = await findCharacter(this.#store, this.#public, account, pinnedName(name, digest))
    return (await found?.source()) ?? undefined
  }

  /**
   * At most `limit` of the characters that an account can name, after this name, in the order of `compareNames`.
   * @param tag only those with this tag, whatever its letters' case
   */
  async list(account: number | null, after: string, limit: number, tag?: string): Promise<readonly ListedCharacter[]> {
    await this.#scanned()
    const wanted = tag === undefined ? undefined : foldName(tag)
    const found: ListedCharacter[] = []
    for (let from = after; ; ) {
      const page = await this.#page(account, from, limit)
      found.push(
        ...page.filter(({ about }) => wanted === undefined || about.tags.some((each) => foldName(each) === wanted)),
      )
      const last = page.at(-1)
      if (!last || page.length < limit || found.length >= limit) return found.slice(0, limit)
      from = last.name
    }
  }

  async #page(account: number | null, after: string, limit: number): Promise<readonly ListedCharacter[]> {
    const own = account === null ? [] : await this.#store.list(account, after, limit)
    const names = new Set(own.map(({ name }) => name))
    const others = this.#public.listed.filter(({ name }) => compareNames(name, after) > 0 && !names.has(name))
    return [...own, ...others].sort((a, b) => compareNames(a.name, b.name)).slice(0, limit)
  }

  /** Waits for the folders to have been read once. */
  async #scanned(): Promise<void> {
    if (!this.#isScanned) await (this.#scanning ?? this.rescan())
  }

  /** The operator's own card of exactly this name. */
  inFolder(name: string): PublicCard | undefined {
    const card = this.#public.find(name, 'exact')
    return card?.origin === 'folder' ? card : undefined
  }

  readonly #readCard = async (bytes: Buffer, file: string): Promise<PublicCard> => {
    const { cardSteps, nameOf } = await reading()
    const { card, digest, about } = await this.#workOf(null).run('character', cardSteps(bytes))
    const name = nameOf(card)
    this.#cache.add(digest, card, memoryOf(card, bytes.length))
    return { name, origin: originOf(file), digest, about, file }
  }

  readonly #readWorldBook = async (bytes: Buffer): Promise<Lorebook> => {
    const [{ readLorebook }, { readJsonDocument }] = await Promise.all([
      import('../lore/lorebook.ts'),
      import('../documents/json-document.ts'),
    ])
    return await this.#workOf(null).run('lorebook', readLorebook(readJsonDocument(bytes)))
  }

  #putBooks(files: readonly FolderFile<Lorebook>[]): void {
    const byName = new Map<string, FolderFile<Lorebook>>()
    const hidden: UnreadableFile[] = []
    for (const found of files) {
      const first = byName.get(basename(found.file))
      if (!first) byName.set(basename(found.file), found)
      else hidden.push({ file: found.file, reason: `Its name is that of ${first.file}, which comes first.` })
    }
    const names = [...byName.keys()].sort()
    this.#worldBooks = names.flatMap((name) => byName.get(name)?.value ?? [])
    this.#hiddenBooks = hidden
  }

  /** Logs how many characters there are, and each file that is not read and has not been told of. */
  report(message = 'the characters are read'): void {
    const { unreadable } = this
    this.#logger?.info({ characters: this.#public.listed.length, lorebooks: this.#worldBooks.length }, message)
    for (const fault of unreadable.filter((each) => !this.#told.has(told(each)))) {
      this.#logger?.warn({ file: relative('.', fault.file), reason: fault.reason }, 'a file is not read')
    }
    this.#told = new Set(unreadable.map(told))
  }
}

/** How cards are read: many modules, that a service which has not been asked for a character does without. */
function reading() {
  return import('./card-bytes.ts')
}

/** What tells one complaint from another. */
function told({ file, reason }: UnreadableFile): string {
  return `${file}\n${reason}`
}

/** A character whose source is there no more. */
class GoneError extends Error {}

async function loadCard({ source }: Found, work: Work) {
  const bytes = await source()
  if (!bytes) throw new GoneError()
  const { cardSteps } = await reading()
  const { card } = await work.run('character', cardSteps(bytes))
  const memory = memoryOf(card, bytes.length)
  freeBytes(bytes)
  return { card, bytes: memory }
}

function orGone(error: unknown): undefined {
  if (!(error instanceof GoneError)) throw error
}

/** The library of a service with these settings, or of a command that works beside it; nothing is read yet. */
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
    // In this order, since by default the starters' folder is the data folder's too.
    folders: [join(configDirectory, 'characters'), join(dataDirectory, 'characters'), starterFolder],
    lorebooks: [join(configDirectory, 'lorebooks'), join(dataDirectory, 'lorebooks')],
    maxCardBytes: cardBodyLimit,
    ...observer,
  })
}
