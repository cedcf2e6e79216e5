import { setImmediate as endOfTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Card, readCard } from '../../../src/characters/cards/card.ts'
import { readKey } from '../../../src/characters/lore/keys.ts'
import { emptyNotes } from '../../../src/characters/lore/lorebook.ts'
import { seededRandom } from '../../../src/characters/macros/seeded-random.ts'
import {
  type CardTexts,
  expansionContextOf,
  requestTextsOf,
  textsOf,
} from '../../../src/characters/prompt/card-texts.ts'
import { TextMemory, UserCache } from '../../../src/characters/prompt/expanded-text-cache.ts'
import { examplesOf } from '../../../src/characters/prompt/segments.ts'
import { TestClock } from '../../support/clock.ts'
import { documentOf } from '../../support/kept-cards.ts'
import { cardOf } from '../../support/lore-cards.ts'
import { often } from '../../support/often.ts'

const settings = { systemPrompt: 'MAIN' }
const parts = [
  'tea',
  ' ',
  '\n',
  '{{char}}',
  '<user>',
  '{{description}}',
  '{{weather}}',
  '{{random:a,b}}',
  '{{pick:a,b,c}}',
  '{{roll:9}}',
  '{{// no}}',
  '{{time}}',
]
const text = fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 5 }).map((all) => all.join(''))
const key = fc.constantFrom('{{char}} the great', '<USER>!', '{{user}}{{weather}}', '{{random:a,b}}', '<bot>')

/** Tries to cache a text of this length. @returns whether the text is cached */
type CachingTexts = (key: string, length: number) => boolean

function cachingTexts(cache: UserCache<CachingTexts>, card: Card, user: string): CachingTexts {
  return cache.get(settings, card, user, (texts) => (key, length) => {
    texts.setText(key, { text: 'x'.repeat(length), unknown: [] })
    return texts.text(key) !== undefined
  })
}

/** A context without a conversation id. */
function plainContext(persona: { readonly name: string }) {
  return expansionContextOf(persona, { now: new Date(0) }, Math.random)
}

/** The result of an expansion, and its changes to the context. */
function expanded(texts: CardTexts, index: number, raw: string, isKey: boolean, conversationId: string) {
  const context = expansionContextOf(
    { name: 'Moss', digest: 'd' },
    { conversationId, now: new Date(0) },
    seededRandom(conversationId),
  )
  const lore = isKey ? readKey(raw, true, emptyNotes().patterns) : undefined
  const result = lore ? texts.expandKey(lore, context) : texts.expand(`${index}`, raw, context)
  return { result, unknown: [...context.unknown].sort(), varied: context.varied }
}

it('cached texts and keys are equal to those that a request expands with an empty cache', () => {
  const asked = fc.record({
    userName: fc.constantFrom('Ada', 'Bea', '{{char}}'),
    index: fc.nat(3),
    isKey: fc.boolean(),
    conversationId: fc.constantFrom('one', 'two', 'three'),
  })
  let cached = 0
  fc.assert(
    fc.property(
      text,
      fc.array(text, { minLength: 4, maxLength: 4 }),
      fc.array(key, { minLength: 4, maxLength: 4 }),
      fc.array(asked, { maxLength: 15 }),
      (description, raws, keys, all) => {
        const card = cardOf({ description })
        for (const { userName, index, isKey, conversationId } of all) {
          const persona = { name: 'Moss', userName }
          const raw = (isKey ? keys : raws)[index] ?? ''
          const texts = textsOf(card, persona, settings)
          cached += !isKey && texts.isCached(`${index}`) ? 1 : 0
          // The texts of one request have a cache of their own, which is empty.
          const own = requestTextsOf(card, persona, settings, true)
          const expected = expanded(own, index, raw, isKey, conversationId)
          expect(expanded(texts, index, raw, isKey, conversationId)).toEqual(expected)
        }
      },
    ),
    { numRuns: often(200) },
  )
  expect(cached).toBeGreaterThan(0)
})

it('a key whose only macros are names is expanded once for a user', () => {
  const card = cardOf({})
  const lore = readKey('{{char}} and {{user}}', true, emptyNotes().patterns)
  if (!lore) throw new Error('no key')
  const expand = (userName: string) => {
    const persona = { name: 'Moss', userName }
    return textsOf(card, persona, settings).expandKey(lore, plainContext(persona))
  }
  expect(expand('Ada')).toBe(expand('Ada'))
  expect([expand('Ada').text, expand('Bea').text]).toEqual(['Moss and Ada', 'Moss and Bea'])
})

it('users share the budget of their card: once it is spent, no text is cached, and the next request begins with an empty cache', () => {
  const cache = new UserCache<(key: string) => boolean>()
  const card = cardOf({})
  /** A function that tries to cache a long text for a user. @returns whether the text is cached */
  const cachesFor = (user: string) =>
    cache.get(settings, card, user, (texts) => (key) => {
      texts.setText(key, { text: 'x'.repeat(3 * 1024 ** 2), unknown: [] })
      return texts.text(key) !== undefined
    })
  const first = cachesFor('Ada')
  expect(cachesFor('Ada')).toBe(first)
  expect([first('a'), cachesFor('Bea')('a'), first('b')]).toEqual([true, true, false])
  const second = cachesFor('Ada')
  expect(second).not.toBe(first)
  expect(second('b')).toBe(true)
})

it('a text that alone exceeds the budget is not cached, and takes nothing from the budget', () => {
  const caches = cachingTexts(new UserCache(), cardOf({}), 'Ada')
  expect([caches('a', 5 * 1024 ** 2), caches('b', 1000)]).toEqual([false, true])
})

it('the example dialogues of many users are cached within the budget of their card', () => {
  const lines = 9_000
  const card = cardOf({ mes_example: `<START>\n${'Moss: x\n'.repeat(lines)}` })
  const examplesFor = (userName: string) => {
    const persona = { name: 'Moss', userName }
    return examplesOf(textsOf(card, persona, settings), plainContext(persona))
  }
  const first = examplesFor('Ada')
  expect(examplesFor('Ada')).toBe(first)
  // Each user takes some 100 characters for each line, and the budget has 4 million.
  for (const user of ['Bea', 'Cid', 'Dan', 'Eve', 'Fay']) examplesFor(user)
  expect(examplesFor('Ada')).not.toBe(first)
})

it('all cards share one memory: the texts of the least recently used cards are removed, and no text of a hot card', () => {
  const users = Array.from({ length: 6 }, (_, index) => `${index}`.padEnd(200, 'é'))
  const cards = Array.from({ length: 12 }, () => cardOf({ description: `Ā${'{{user}}'.repeat(2990)}` }))
  const hot = cardOf({ description: '{{user}} waters the moss.' })
  const textsFor = (card: typeof hot, userName: string) => textsOf(card, { name: 'Moss', userName }, settings)
  const expand = (card: typeof hot, userName: string) => {
    const texts = textsFor(card, userName)
    texts.expand('description', card.description, plainContext({ name: 'Moss' }))
    return texts
  }
  const hotTexts = expand(hot, 'Ada')
  for (const card of cards) {
    for (const user of users) expand(card, user)
    expect(textsFor(hot, 'Ada')).toBe(hotTexts)
  }
  expect(hotTexts.isCached('description')).toBe(true)
  const [user = ''] = users
  const cached = cards.toReversed().map((card) => textsFor(card, user).isCached('description'))
  // For each card, 3.6 million characters are cached, and the memory has room for 16 million.
  expect(cached.filter((isCached) => isCached).length).toBeLessThan(6)
  expect(cached[0]).toBe(true)
})

it('the users of many small cards are removed too', () => {
  const cards = Array.from({ length: 300 }, () => cardOf({}))
  const textsFor = (card: (typeof cards)[number], userName: string) => {
    return textsOf(card, { name: 'Moss', userName }, settings)
  }
  const kept = cards.flatMap((card) =>
    Array.from({ length: 99 }, (_, user) => ({ card, user, texts: textsFor(card, `User ${user}`) })),
  )
  const left = kept.toReversed().filter(({ card, user, texts }) => textsFor(card, `User ${user}`) === texts)
  // A user counts at least 1,500 characters.
  expect(left.length).toBeGreaterThan(1000)
  expect(left.length).toBeLessThan(12_000)
})

it('an evicted card caches nothing more for a running request', () => {
  const cache = new UserCache<CachingTexts>(new TextMemory(10_000))
  const first = cachingTexts(cache, cardOf({}), 'Ada')
  expect(first('a', 1000)).toBe(true)
  expect(cachingTexts(cache, cardOf({}), 'Ada')('a', 7000)).toBe(true)
  expect(first('b', 1000)).toBe(false)
})

it('the texts of a card are removed half a minute after their last use, if the card has many texts', () => {
  const clock = new TestClock()
  const cache = new UserCache<CachingTexts>(new TextMemory(undefined, clock))
  const [large, small] = [cardOf({}), cardOf({})]
  const largeTexts = cachingTexts(cache, large, 'Ada')
  const smallTexts = cachingTexts(cache, small, 'Ada')
  largeTexts('a', 600_000)
  smallTexts('a', 400_000)
  clock.advance(29_000)
  expect(cachingTexts(cache, large, 'Ada')).toBe(largeTexts)
  clock.advance(29_000)
  expect(cachingTexts(cache, large, 'Ada')).toBe(largeTexts)
  clock.advance(30_000)
  expect(cachingTexts(cache, large, 'Ada')).not.toBe(largeTexts)
  expect(cachingTexts(cache, small, 'Ada')).toBe(smallTexts)
})

it('removed texts, and texts of cards that are no longer used, are garbage', async () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const cache = new UserCache<CachingTexts>(new TextMemory(10_000))
  const kept = readCard(documentOf({}))
  const refs = [kept, readCard(documentOf({}))].map((card) => {
    const texts = cachingTexts(cache, card, 'Ada')
    texts('a', 1000)
    return new WeakRef(texts)
  })
  await endOfTurn()
  collect()
  expect(refs.map((ref) => ref.deref() === undefined)).toEqual([false, true])
  await endOfTurn()
  cachingTexts(cache, cardOf({}), 'Ada')('a', 8000)
  collect()
  expect(refs[0]?.deref()).toBeUndefined()
  expect(kept.greetings).toBeDefined()
})
