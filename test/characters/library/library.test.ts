import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import events, { EventEmitter } from 'node:events'
import { mkdirSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { deflateSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { cardOf } from '../../../src/characters/cards/kept-card.ts'
import { CardError } from '../../../src/characters/documents/card-error.ts'
import { type Character, type CharacterStore, compareNames } from '../../../src/characters/library/character.ts'
import { CharacterLibrary, type LibraryOptions } from '../../../src/characters/library/library.ts'
import { starterFolder } from '../../../src/characters/library/lookup.ts'
import { WatchedFolder } from '../../../src/characters/library/watched-folder.ts'
import { bookOf } from '../../../src/characters/lore/kept-book.ts'
import { overloaded } from '../../../src/errors.ts'
import type { Stores } from '../../../src/stores/stores.ts'
import { cardChunk, png, pngChunk, zip } from '../../support/containers.ts'
import { temporaryFolder } from '../../support/service.ts'
import { storesForThisTest } from '../../support/test-database.ts'

function folder(files: Readonly<Record<string, string | Buffer>> = {}): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), content)
  return path
}

function named(name: string, description = ''): string {
  return JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data: { name, description } })
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

async function libraryOver(options: Partial<LibraryOptions>): Promise<CharacterLibrary> {
  const store = options.store ?? (await storesForThisTest(folder())).characters
  const library = new CharacterLibrary({ store, maxCardBytes: 100_000, ...options })
  onTestFinished(() => library.close())
  await library.load()
  return library
}

test('a list is read in pages, between which other requests go on', async () => {
  const about = { tags: ['Wanted'] } as const
  const names = Array.from({ length: 1000 }, (_, index) => `Moss ${String(index).padStart(4, '0')}`)
  const stored = (name: string) => ({ name, origin: 'account', digest: 'd', about, created: 1, updated: 1 }) as const
  const { characters } = await storesForThisTest(folder())
  let pages = 0
  let turns = 0
  const store: CharacterStore = Object.assign(Object.create(characters), {
    async list(_account: number, after: string, limit: number) {
      expect(limit).toBeLessThanOrEqual(200)
      pages++
      setImmediate(() => turns++)
      return names
        .filter((name) => name > after)
        .slice(0, limit)
        .map(stored)
    },
  })
  const library = await libraryOver({ store })
  for (const [limit, tag, found] of [
    [1001, undefined, 1000],
    [10, 'absent', 0],
    [5, 'wanted', 5],
    [1001, 'wanted', 1000],
  ] as const) {
    pages = 0
    turns = 0
    expect(await library.list(1, '', limit, tag)).toHaveLength(found)
    expect(turns).toBeGreaterThanOrEqual(pages - 1)
  }
})

test('names are in the order of their UTF-8 bytes', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'é', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '🌵'),
    maxLength: 4,
  })
  const sign = (a: string, b: string) => Math.sign(compareNames(a, b))
  fc.assert(fc.property(text, text, (a, b) => sign(a, b) === Buffer.compare(Buffer.from(a), Buffer.from(b))))
})

/** A clock in the future, so that no file counts as just written. */
const longAfterwards = () => Date.now() + 3_600_000

test('the next scan reads a file again if the system or a busy service refused it, but not if it is no card', async () => {
  const path = folder({ 'fern.json': 'fern', 'ivy.json': 'ivy', 'moss.json': 'moss' })
  const reads: string[] = []
  const read = (bytes: Buffer) => {
    const text = bytes.toString()
    reads.push(text)
    if (text === 'moss') throw new CardError('card_invalid', 'It is no card.')
    if (text === 'ivy' && reads.filter((each) => each === text).length < 2) throw overloaded('Too busy.')
    if (text === 'fern' && reads.filter((each) => each === text).length < 3)
      throw Object.assign(new Error('no'), { code: 'EMFILE', syscall: 'open' })
    return text
  }
  const watched = new WatchedFolder(path, { extensions: ['.json'], maxFileBytes: 100, read, now: longAfterwards })
  const reasons = () => watched.unreadable.map(({ reason }) => reason)
  expect(await watched.scan()).toBe(true)
  expect(reasons()).toEqual(['It cannot be read (EMFILE).', 'Too busy.', 'It is no card.'])
  expect(await watched.scan()).toBe(true)
  expect(reasons()).toEqual(['It cannot be read (EMFILE).', 'It is no card.'])
  expect(await watched.scan()).toBe(true)
  expect([watched.files.map(({ value }) => value), reasons()]).toEqual([['fern', 'ivy'], ['It is no card.']])
  expect(await watched.scan()).toBe(false)
  expect(reads).toEqual(['fern', 'ivy', 'moss', 'fern', 'ivy', 'fern'])
})

/** Stores with two accounts, 1 and 2, and a way to upload. */
async function accounts(): Promise<{
  stores: Stores
  upload: (account: number, text: string, as?: string) => Promise<void>
}> {
  const stores = await storesForThisTest(folder())
  await stores.access.createAccount('ann')
  await stores.access.createAccount('bob')
  const upload = async (account: number, text: string, as?: string) => {
    const document: { data: { name: string } } = JSON.parse(text)
    const name = as ?? document.data.name
    const about = { tags: [], creator: '' }
    await stores.characters.put(account, { name, digest: digestOf(text), source: Buffer.from(text), about })
  }
  return { stores, upload }
}

function from(character: Character | undefined): readonly [string, string, string] | undefined {
  return character && [character.name, character.origin, cardOf(character.card).description]
}

describe('a name', () => {
  test('is matched exactly first, then without regard to case', async () => {
    const library = await libraryOver({ folders: [folder({ 'a.json': named('Moss'), 'b.json': named('MOSS') })] })
    expect((await library.resolve(null, 'Moss'))?.name).toBe('Moss')
    expect((await library.resolve(null, 'MOSS'))?.name).toBe('MOSS')
    expect((await library.resolve(null, 'moss'))?.name).toBe('Moss')
    expect((await library.resolve(null, ' Moss '))?.name).toBe('Moss')
    for (const name of ['', 'Mos', 'a', 'a.json', 'M%6Fss']) expect(await library.resolve(null, name)).toBeUndefined()
  })

  test("finds an upload first, then a folder's card, then a starter; but an exact match comes first", async () => {
    const { stores, upload } = await accounts()
    const operators = folder({ 'fern.json': named('Fern', 'folder'), 'ivy.json': named('Ivy', 'folder') })
    const library = await libraryOver({ store: stores.characters, folders: [starterFolder, operators] })
    expect(from(await library.resolve(1, 'Fern'))).toEqual(['Fern', 'folder', 'folder'])
    expect((await library.resolve(1, 'Bolt'))?.origin).toBe('starter')
    await upload(1, named('Fern', 'upload'))
    await upload(1, named('IVY', 'upload'))
    expect(from(await library.resolve(1, 'Fern'))).toEqual(['Fern', 'account', 'upload'])
    expect(from(await library.resolve(1, 'fern'))).toEqual(['Fern', 'account', 'upload'])
    expect(from(await library.resolve(1, 'Ivy'))).toEqual(['Ivy', 'folder', 'folder'])
    expect(from(await library.resolve(1, 'ivy'))).toEqual(['IVY', 'account', 'upload'])
    expect(from(await library.resolve(2, 'Fern'))).toEqual(['Fern', 'folder', 'folder'])
    expect(from(await library.resolve(2, 'IVY'))).toEqual(['Ivy', 'folder', 'folder'])
    expect(from(await library.resolve(null, 'Fern'))).toEqual(['Fern', 'folder', 'folder'])
  })

  test('of two cards in one folder finds the first file’s card; the other is reported', async () => {
    const library = await libraryOver({
      folders: [folder({ 'b.json': named('Moss', 'b'), 'a.json': named('Moss', 'a') })],
    })
    expect(from(await library.resolve(null, 'Moss'))?.[2]).toBe('a')
    expect(library.unreadable.map(({ file, reason }) => [basename(file), reason])).toEqual([
      ['b.json', 'It has the same name as a.json, which comes first.'],
    ])
  })
})

describe('a pinned version', () => {
  test('is found by its digest or the first 8 digits, also after it was replaced', async () => {
    const { stores, upload } = await accounts()
    const [first, second] = [named('Fern', 'first'), named('Fern', 'second')]
    await upload(1, first)
    await upload(1, second)
    const library = await libraryOver({ store: stores.characters, folders: [starterFolder] })
    const starter = (await library.resolve(2, 'Fern'))?.digest ?? ''
    const find = async (name: string, account = 1) => from(await library.resolve(account, name))?.[2]
    expect(await find('Fern')).toBe('second')
    for (const digest of [digestOf(first), digestOf(first).slice(0, 8), digestOf(first).toUpperCase()]) {
      expect(await find(`Fern@sha256:${digest}`)).toBe('first')
      expect(await find(`fern@sha256:${digest}`)).toBe('first')
    }
    expect(await find(`Fern@sha256:${digestOf(second)}`)).toBe('second')
    expect((await library.resolve(1, `Fern@sha256:${starter}`))?.origin).toBe('starter')
    const not = [
      `Fern@sha256:${digestOf(first).slice(0, 7)}`,
      `Fern@sha256:${digestOf(first)}0`,
      `Bolt@sha256:${digestOf(first)}`,
      `@sha256:${digestOf(first)}`,
      `Fern@sha256:${'0'.repeat(64)}`,
      'Fern@sha256:',
      'Fern@sha256:%25252525',
      'Fern@sha256:________',
    ]
    for (const name of not) expect([name, await find(name)]).toEqual([name, undefined])
    expect(await find(`Fern@sha256:${digestOf(first)}`, 2)).toBeUndefined()
    await stores.characters.remove(1, 'Fern')
    expect(await find(`Fern@sha256:${digestOf(first)}`)).toBeUndefined()
  })
})

describe('the folder', () => {
  test('lists each card with the digest of its bytes', async () => {
    const text = `\uFEFF${named('Moss')}\r\n`
    const library = await libraryOver({ folders: [folder({ 'a.json': text })] })
    expect((await library.resolve(null, 'Moss'))?.digest).toBe(digestOf(text))
  })

  test('may be missing or configured twice; a file with the file name of a starter is no starter', async () => {
    const path = folder({ 'fern.json': named('Fern', 'mine') })
    const library = await libraryOver({
      folders: [path, `${path}/.`, join(path, 'missing'), starterFolder, starterFolder],
    })
    expect((await library.resolve(null, 'Fern'))?.origin).toBe('folder')
    expect(library.unreadable).toEqual([])
    const listed = await library.list(null, '', 100)
    expect(listed.map(({ name, origin }) => [name, origin])).toEqual([
      ['Bolt', 'starter'],
      ['Captain Vesper', 'starter'],
      ['Fern', 'folder'],
      ['Tolliver', 'starter'],
    ])
    expect(readdirSync(starterFolder).sort()).toEqual(['bolt.json', 'fern.json', 'tolliver.json', 'vesper.json'])
  })

  test('reports files without a card by name and reason, without their content, and reads the cards in other files', async () => {
    const path = folder({
      'a.json': '{"secret":',
      'b.json': '{"secret": 5}',
      'c.JSON': named('Moss'),
      'd.txt': named('Not looked at'),
      '.e.json': named('Hidden'),
      'f.json': named('Large', 'x'.repeat(100_000)),
      'g.json': named(' \t'),
      'h.json': named('Moss@sha256:0000'),
    })
    mkdirSync(join(path, 'folder.json'))
    symlinkSync(join(path, 'nowhere'), join(path, 'link.json'))
    // To open a named pipe without a writer would block forever.
    execFileSync('mkfifo', [join(path, 'pipe.json')])
    const told: object[] = []
    const logger = {
      info: (facts: object) => told.push(facts),
      warn: (facts: object) => told.push(facts),
      error: vi.fn(),
    }
    const library = await libraryOver({ folders: [path], logger, now: longAfterwards })
    expect((await library.list(null, '', 100)).map(({ name }) => name)).toEqual(['Moss'])
    const faults = library.unreadable.map(({ file, reason }) => [basename(file), reason])
    expect(faults).toEqual([
      ['a.json', expect.stringMatching(/^[A-Z].*\.$/)],
      ['b.json', expect.stringMatching(/not a character card/)],
      ['f.json', 'It is larger than 100000 bytes.'],
      ['folder.json', 'It is not a file.'],
      ['g.json', "The card's name is blank; give the character a name."],
      ['h.json', expect.stringMatching(/pins a version/)],
      ['link.json', 'It cannot be read (ENOENT).'],
      ['pipe.json', 'It is not a file.'],
    ])
    expect(told).toEqual([
      { characters: 1, lorebooks: 0 },
      ...faults.map(([file, reason]) => ({ file: expect.stringMatching(new RegExp(`${file}$`)), reason })),
    ])
    expect(JSON.stringify([told, library.unreadable])).not.toContain('secret')
  })

  test('finds no card by the path of its file, nor before a scan has read the file', async () => {
    const path = folder({ 'a.json': named('Moss'), 'secret.json': 'not yet a card' })
    const library = await libraryOver({ folders: [path] })
    writeFileSync(join(path, 'secret.json'), named('secret'))
    writeFileSync(join(path, 'new.json'), named('new'))
    const names = ['secret', 'secret.json', 'new', './new.json', join(path, 'new.json'), `file://${path}/new.json`]
    for (const name of [...names, '../a', '..', '.', '/', '\0', '__proto__', 'constructor', 'hasOwnProperty']) {
      expect(await library.resolve(1, name)).toBeUndefined()
    }
    rmSync(path, { recursive: true })
    expect((await library.resolve(null, 'Moss'))?.name).toBe('Moss')
  })
})

describe('a watched folder', () => {
  async function watched(now = longAfterwards) {
    const data = folder()
    const [characters, lorebooks] = [join(data, 'characters'), join(data, 'lorebooks')]
    const told: object[] = []
    const news = new EventEmitter()
    const logger = {
      info: () => void news.emit('news'),
      warn: (facts: object) => told.push(facts),
      error: vi.fn(),
    }
    const library = await libraryOver({ folders: [characters], lorebooks: [lorebooks], logger, now })
    library.watch()
    const description = async (name: string) => {
      const found = await library.resolve(null, name)
      return found && cardOf(found.card).description
    }
    /** Waits for reports of changes until a condition is true. */
    const once = async (holds: () => unknown) => {
      for (let next = events.once(news, 'news'); !(await holds()); next = events.once(news, 'news')) await next
    }
    return { data, characters, lorebooks, library, told, description, once }
  }

  test('follows files that are added, changed, moved and removed, also when the folder is created, removed and created again', async () => {
    const { data, characters, description, once } = await watched()
    for (const round of ['1', '2']) {
      mkdirSync(characters)
      writeFileSync(join(characters, 'moss.json'), named('Moss', `first ${round}`))
      await once(async () => (await description('Moss')) === `first ${round}`)
      writeFileSync(join(characters, 'moss.json'), named('Moss', `other ${round}`))
      await once(async () => (await description('Moss')) === `other ${round}`)
      writeFileSync(join(data, 'outside.json'), named('Fir', 'moved in'))
      renameSync(join(data, 'outside.json'), join(characters, 'fir.json'))
      await once(async () => (await description('Fir')) === 'moved in')
      rmSync(join(characters, 'moss.json'))
      await once(async () => (await description('Moss')) === undefined)
      rmSync(characters, { recursive: true })
      await once(async () => (await description('Fir')) === undefined)
    }
  })

  test('reports a broken file once, plays the cards in other files, and reads the file when it is repaired', async () => {
    const { characters, told, description, once, library } = await watched()
    mkdirSync(characters)
    writeFileSync(join(characters, 'moss.json'), named('Moss').slice(0, -5))
    writeFileSync(join(characters, 'fir.json'), named('Fir', 'fine'))
    await once(async () => (await description('Fir')) === 'fine')
    await once(() => told.length > 0)
    await library.rescan()
    writeFileSync(join(characters, 'fir.json'), named('Fir', 'finer'))
    await once(async () => (await description('Fir')) === 'finer')
    expect(told).toEqual([{ file: expect.stringMatching(/moss\.json$/), reason: expect.stringMatching(/JSON/) }])
    writeFileSync(join(characters, 'moss.json'), named('Moss', 'whole'))
    await once(async () => (await description('Moss')) === 'whole')
    expect(library.unreadable).toEqual([])
  })

  test('neither plays nor reports a file while it is written, and reports the file if it stays incomplete', async () => {
    let file = ''
    // The test sets the clock, so that the speed of the disk does not matter.
    let now = () => statSync(file).mtimeMs + 1900
    const { characters, told, description, once, library } = await watched(() => now())
    mkdirSync(characters)
    file = join(characters, 'moss.json')
    const text = named('Moss', 'x'.repeat(50_000))
    for (let end = 0; end < text.length; end += 5000) {
      writeFileSync(file, text.slice(0, end))
      await library.rescan()
      expect([await description('Moss'), library.unreadable]).toEqual([undefined, []])
    }
    writeFileSync(file, text)
    await once(async () => (await description('Moss'))?.length === 50_000)
    writeFileSync(file, text.slice(0, 5000))
    await library.rescan()
    expect(await description('Moss')).toHaveLength(50_000)
    expect(told).toEqual([])
    now = () => statSync(file).mtimeMs + 2100
    await once(() => told.length > 0)
    expect(await description('Moss')).toBeUndefined()
    expect(told).toEqual([{ file: expect.stringMatching(/moss\.json$/), reason: expect.stringMatching(/JSON/) }])
  })

  test('serves a changed file only under its new digest', async () => {
    const path = folder({ 'moss.json': named('Moss', 'old') })
    const library = await libraryOver({ folders: [path] })
    const old = await library.resolve(null, 'Moss')
    if (!old) throw new Error('no Moss')
    writeFileSync(join(path, 'moss.json'), named('Moss', 'new, and longer'))
    expect(await old.read()).toBeUndefined()
    await library.rescan()
    const renewed = await library.resolve(null, 'Moss')
    expect(renewed?.digest).toBe(digestOf(named('Moss', 'new, and longer')))
    expect(String(await renewed?.read())).toContain('new')
  })

  test('may have world books, which are in the order of their file names', async () => {
    const { lorebooks, library, told, once } = await watched()
    expect(library.worldBooks).toEqual([])
    mkdirSync(lorebooks)
    const book = (name: string) => JSON.stringify({ name, entries: [] })
    writeFileSync(join(lorebooks, 'b.json'), book('second'))
    writeFileSync(join(lorebooks, 'a.json'), book('first'))
    writeFileSync(join(lorebooks, 'c.json'), '{"name": "no book"}')
    const names = () => library.worldBooks.map((book) => bookOf(book).name).join()
    await once(() => names() === 'first,second')
    expect(told).toHaveLength(1)
    const [first] = library.worldBooks
    writeFileSync(join(lorebooks, 'b.json'), book('third'))
    await once(() => names() === 'first,third')
    expect(library.worldBooks[0]).toBe(first)
  })
})

describe('a card in the cache', () => {
  test('is one object for all accounts and requests with its digest', async () => {
    const { stores, upload } = await accounts()
    const text = named('Moss')
    await upload(1, text)
    await upload(2, text, 'Mine')
    const library = await libraryOver({ store: stores.characters, folders: [folder({ 'a.json': text })] })
    const found = await Promise.all(
      [
        [1, 'Moss'],
        [2, 'Mine'],
        [2, 'moss'],
        [1, 'Moss'],
      ].map(([account, name]) => library.resolve(Number(account), String(name))),
    )
    expect(new Set(found.map((character) => character?.card)).size).toBe(1)
    expect(found.map((character) => character?.name)).toEqual(['Moss', 'Mine', 'Moss', 'Moss'])
  })

  test.each([
    ['PNG', (json: string) => png(pngChunk('zTXt', Buffer.concat([Buffer.from('ccv3\0\0'), deflateSync(json)])))],
    ['CHARX', (json: string) => zip([{ name: 'card.json', content: json }])],
  ])(
    'has the size of its unpacked JSON: the cache has room for two cards of 14 MB in a %s of less than 100 kB',
    async (packing, pack) => {
      // The random letters keep the archive below the ratio of zip bombs.
      const description = `Ā${randomBytes(70_000).toString('hex')}${'a'.repeat(14_000_000)}`
      const cards = ['Ash', 'Elm', 'Oak'].map(
        (name) => [`${name}.${packing === 'CHARX' ? 'charx' : 'png'}`, pack(named(name, description))] as const,
      )
      expect(cards.every(([, bytes]) => bytes.length < 100_000)).toBe(true)
      const library = await libraryOver({ folders: [folder(Object.fromEntries(cards))] })
      const keptOf = async (name: string) => (await library.resolve(null, name))?.card
      const ash = await keptOf('Ash')
      const elm = await keptOf('Elm')
      expect(elm === undefined).toBe(false)
      expect((await keptOf('Ash')) === ash).toBe(true)
      await keptOf('Oak')
      expect((await keptOf('Elm')) === elm).toBe(false)
    },
  )

  test('has the size of its JSON, without the picture around it', async () => {
    const picture = (name: string) =>
      png(pngChunk('tEXt', randomBytes(16_000_000)), cardChunk('ccv3', JSON.parse(named(name))))
    const files = Object.fromEntries(['Ash', 'Elm', 'Oak', 'Yew'].map((name) => [`${name}.png`, picture(name)]))
    const library = await libraryOver({ folders: [folder(files)], maxCardBytes: 64 * 1024 ** 2 })
    const ash = (await library.resolve(null, 'Ash'))?.card
    for (const name of ['Elm', 'Oak', 'Yew']) await library.resolve(null, name)
    expect((await library.resolve(null, 'Ash'))?.card === ash).toBe(true)
  })
})
