import fc from 'fast-check'
import { expect, it } from 'vitest'
import { expansionContextOf, textsOf } from '../../../src/characters/prompt/card-texts.ts'
import { DerivedCache } from '../../../src/characters/prompt/derived-cache.ts'
import { spend } from '../../../src/work/fuel.ts'
import { cardWithLore, composed, user } from '../../support/lore-cards.ts'
import { often } from '../../support/often.ts'

const settings = { systemPrompt: 'MAIN' }

it('a cached value and its unknown macros are equal to newly made ones', () => {
  const asked = fc.record({ user: fc.constantFrom('Ada', 'Bea'), key: fc.nat(5), wasVaried: fc.boolean() })
  const kind = fc.record({ varies: fc.boolean(), unknown: fc.subarray(['weather', 'mood']) })
  let made = 0
  let expected = 0
  fc.assert(
    fc.property(fc.array(kind, { minLength: 6, maxLength: 6 }), fc.array(asked, { maxLength: 20 }), (kinds, all) => {
      const cache = new DerivedCache<string>(3, (text) => text.length)
      const card = cardWithLore([])
      for (const [index, { user: userName, key, wasVaried }] of all.entries()) {
        const persona = { name: 'Moss', userName }
        const texts = textsOf(card, persona, settings)
        const newContext = () => ({
          ...expansionContextOf(persona, { now: new Date(0) }, Math.random),
          varied: wasVaried,
        })
        const context = newContext()
        const ownContext = newContext()
        const make = (into: typeof context) => {
          spend(1)
          into.varied ||= kinds[key]?.varies ?? false
          for (const name of kinds[key]?.unknown ?? []) into.unknown.add(name)
          return `${userName} ${key} ${kinds[key]?.varies ? index : ''}`
        }
        const derived = cache.derive(texts, key, context, () => {
          made += 1
          return make(context)
        })
        expected += 1
        expect([derived, context.unknown, context.varied]).toEqual([
          make(ownContext),
          ownContext.unknown,
          ownContext.varied,
        ])
      }
    }),
    { numRuns: often(200) },
  )
  expect(made).toBeLessThan(expected)
})

it('for each user, the cached texts, dialogues and messages of a card are equal to those of a newly read card', () => {
  const parts = [
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
  const text = fc.array(fc.constantFrom(...parts), { maxLength: 8 }).map((all) => all.join(''))
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
  const texts = fc.record({
    mes_example: text,
    first_mes: text,
    description: text,
    system_prompt: text,
    post_history_instructions: text,
  })
  const used = fc.array(entry, { maxLength: 4 })
  fc.assert(
    fc.property(texts, used, both, fc.array(asked, { maxLength: 6 }), (data, entries, prompts, all) => {
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
