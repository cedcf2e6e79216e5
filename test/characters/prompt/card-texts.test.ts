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
import { documentOf } from '../../support/kept-cards.ts'
import { cardOf, cardWithLore, composed, user } from '../../support/lore-cards.ts'
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

it('kept texts and keys are equal to those that a request expands anew', () => {
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
          cached += !isKey && texts.isKept(`${index}`) ? 1 : 0
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

it('for each user, the kept texts, dialogues and messages of a card are equal to those of a newly read card', () => {
  const lines = [
    '<START>\n',
    '\n',
    '{{user}}: Hi, {{char}}.',
    '{{char}}: {{random:a,b}}',
    '{{char}}: {{pick:a,b}}',
    'Ada: No. ',
    '{{weather}} ',
    '{{// {{user}}: no }}',
    '<bot>: {{description}}',
    '{{original}}',
  ]
  const text = fc.array(fc.constantFrom(...lines), { maxLength: 8 }).map((all) => all.join(''))
  const greeted = '@@is_greeting 0\n@@@disable_ui_prompt system_prompt\nGREETED'
  const entry = fc.record({
    constant: fc.boolean(),
    keys: fc.constant(['tea']),
    content: fc.constantFrom('BODY', 'To {{user}}', '{{random:a,b}}', '{{user}}: Ho', '{{mood}}', greeted),
    extensions: fc.record({ position: fc.constantFrom(0, 1, 4, 5, 6), depth: fc.nat(2) }),
  })
  const asked = fc.record({
    userName: fc.constantFrom('Ada', 'Bea'),
    words: fc.constantFrom('tea', 'cup'),
    conversationId: fc.constantFrom('one', 'two'),
    persona: fc.constantFrom(undefined, 'A gardener', 'A nurse'),
    hour: fc.nat(3),
    greeting: fc.constantFrom(undefined, -1),
    seed: fc.nat(100),
  })
  const operators = fc.constantFrom('MAIN', 'For {{persona}}.', 'At {{isotime}}.', '{{random:a,b}}')
  const both = fc.record({ systemPrompt: operators, postHistoryPrompt: operators })
  const cardTexts = fc.record({
    mes_example: text,
    first_mes: text,
    description: text,
    system_prompt: text,
    post_history_instructions: text,
  })
  const used = fc.array(entry, { maxLength: 4 })
  fc.assert(
    fc.property(cardTexts, used, both, fc.array(asked, { maxLength: 6 }), (data, entries, prompts, all) => {
      const card = cardWithLore(entries, {}, data)
      const compose = (each: (typeof all)[number], from: typeof card) => {
        let draw = each.seed
        const random = () => {
          draw = (draw * 7 + 3) % 101
          return draw / 101
        }
        const { userName, conversationId, persona, greeting } = each
        const { messages, sections, unknownMacros } = composed(from, [user(each.words)], {
          userName,
          conversationId,
          random,
          settings: prompts,
          now: new Date(each.hour * 3_600_000),
          ...(greeting === undefined ? {} : { greeting }),
          ...(persona === undefined ? {} : { texts: { persona, seesCard: true } }),
        })
        return { messages, sections, unknownMacros: unknownMacros.toSorted() }
      }
      for (const each of all) expect(compose(each, card)).toEqual(compose(each, cardWithLore(entries, {}, data)))
    }),
    { numRuns: often(200) },
  )
})

/** The texts of a user after an expansion of this text. */
function expandedFor(card: Card, userName: string, text: string): CardTexts {
  const persona = { name: 'Moss', userName }
  const texts = textsOf(card, persona, settings)
  texts.expand('text', text, plainContext(persona))
  return texts
}

it('a user whose texts are longer than 4 million characters begins with nothing at the next request, and other users do not', () => {
  const [card, part] = [cardOf({}), 'x'.repeat(900_000)]
  const [first, other] = [expandedFor(card, 'Ada', part), expandedFor(card, 'Bea', part)]
  for (let index = 0; index < 4; index++) first.expand(`${index}`, part, plainContext({ name: 'Moss' }))
  first.expand('one more', part, plainContext({ name: 'Moss' }))
  expect(first.isKept('one more')).toBe(false)
  expect(expandedFor(card, 'Ada', part)).not.toBe(first)
  expect(expandedFor(card, 'Bea', part)).toBe(other)
})

it('the texts that were used longest ago are removed, and no text of a hot card', () => {
  const hot = cardOf({})
  const hotTexts = expandedFor(hot, 'Ada', 'x')
  const others = Array.from({ length: 40 }, (_none, index) => {
    const card = cardOf({})
    const texts = expandedFor(card, `User ${index}`, 'x'.repeat(1_000_000))
    expect(expandedFor(hot, 'Ada', 'x')).toBe(hotTexts)
    return { card, texts }
  })
  const left = others.map(
    ({ card, texts }, index) => textsOf(card, { name: 'Moss', userName: `User ${index}` }, settings) === texts,
  )
  // The memory has room for 16 million characters.
  expect(left.lastIndexOf(false)).toBeGreaterThan(20)
  expect(left.at(-1)).toBe(true)
})

it('removed texts, and texts of cards that are no longer used, are garbage', async () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const kept = readCard(documentOf({}))
  const refs = [kept, readCard(documentOf({}))].map((card) => new WeakRef(expandedFor(card, 'Ada', 'x')))
  await endOfTurn()
  collect()
  expect(refs.map((ref) => ref.deref() === undefined)).toEqual([false, true])
  await endOfTurn()
  for (let index = 0; index < 20; index++) expandedFor(cardOf({}), 'Ada', 'x'.repeat(1_000_000))
  collect()
  expect(refs[0]?.deref()).toBeUndefined()
  expect(kept.greetings).toBeDefined()
})
