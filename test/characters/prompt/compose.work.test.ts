import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compose } from '../../../src/characters/prompt/compose.ts'
import type { Composition, CompositionRequest } from '../../../src/characters/prompt/composition.ts'
import { toApiError } from '../../../src/errors.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { inlineUnits, maxUnits, OutOfFuel, spend, withFuel } from '../../../src/work/fuel.ts'
import { composedAtOnce, fullRequest } from '../../support/composed.ts'
import { assistant, cardOf, cardWithLore, keptOf, user } from '../../support/lore-cards.ts'
import { unitsOf } from '../../support/units.ts'

type Fields = Readonly<Record<string, unknown>>

const settings = { systemPrompt: 'MAIN' }

function requestFor(data: Fields, messages: readonly Message[], entries: readonly Fields[] = []): CompositionRequest {
  const card = entries.length === 0 ? cardOf(data) : cardWithLore(entries, {}, data)
  return fullRequest({
    persona: { name: 'Moss', card: keptOf(card), userName: 'Ada', digest: 'd' },
    messages,
    settings,
  })
}

const many = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_none, index) => make(index))
const keys64 = (make: (index: number) => string) => many(64, make)
const chat = (count: number, length: number) =>
  many(count, (index) => (index % 2 === 0 ? user : assistant)(`word${index} `.repeat(length / 8)))
const letters = (text: string): number => {
  spend(text.length)
  return text.length
}

/** Requests that take long to compose: the kind of request, a size, and a function that makes a request of a size. */
const heavy: readonly (readonly [string, number, (size: number) => CompositionRequest])[] = [
  [
    'keys with names in them',
    100,
    (size) =>
      requestFor(
        {},
        [user('Hello')],
        many(size, (index) => ({ keys: keys64((key) => `{{char}}${index}.${key}`) })),
      ),
  ],
  [
    'entries that depend on earlier messages',
    1000,
    (size) =>
      requestFor(
        {},
        chat(200, 8000),
        many(size, (index) => ({
          keys: [`absent${index}`],
          content: '@@dont_activate_after_match\n@@scan_depth 400\nBody',
        })),
      ),
  ],
  [
    'constants',
    5000,
    (size) =>
      requestFor(
        {},
        [user('Hello')],
        many(size, () => ({ constant: true })),
      ),
  ],
  [
    'constants at depths, over tool results',
    2000,
    (size) =>
      requestFor(
        {},
        [user('Hello'), ...many(size, () => ({ role: 'tool' as const, tool_call_id: 'x', content: 'r' }))],
        many(size, (index) => ({ constant: true, extensions: { position: 4, depth: index } })),
      ),
  ],
  [
    'entries in groups',
    2000,
    (size) =>
      requestFor(
        {},
        [user('Hello')],
        many(size, (index) => ({ constant: true, extensions: { group: `g${index},h${index}` } })),
      ),
  ],
  [
    'examples',
    1500,
    (size) => requestFor({ mes_example: '<START>\nAda: Hi\nMoss: Ho\n'.repeat(size) }, [user('Hello')]),
  ],
  ['unclosed braces', 50_000, (size) => requestFor({ description: '{{a '.repeat(size) }, [user('Hello')])],
  ['dice', 1400, (size) => requestFor({ description: '{{roll:1000d1}}'.repeat(size) }, [user('Hello')])],
  [
    'reversed texts',
    100_000,
    (size) =>
      requestFor({ description: `${'{{reverse:'.repeat(32)}${'a'.repeat(size)}${'}}'.repeat(32)}` }, [user('Hello')]),
  ],
  [
    'greetings that are compared',
    10_000,
    (size) => requestFor({ alternate_greetings: many(size, (index) => `g${index}`) }, [assistant('Hello')]),
  ],
  ['messages', 20_000, (size) => requestFor({}, chat(size, 80), [{ keys: ['absent'] }])],
  [
    'parts that do not fit the context',
    2000,
    (size) => ({
      ...requestFor(
        {},
        [user('Hello')],
        many(size, () => ({ constant: true })),
      ),
      contextWindow: 1000,
    }),
  ],
]

/** Cards and chats of about 64 KiB each that take more than 10 ms. */
const worst: readonly (readonly [string, () => CompositionRequest])[] = [
  [
    'greetings that are not sent',
    () =>
      requestFor({ alternate_greetings: many(3500, (index) => `{{user}}${index}`) }, [assistant('Hello '.repeat(40))]),
  ],
  [
    'sticky entries in groups',
    () =>
      requestFor(
        {},
        many(400, (index) => (index % 2 === 0 ? user : assistant)(`w${index} hi`)),
        many(467, (index) => ({ keys: [`w${index % 200}`], extensions: { sticky: 3, group: 'a,b,c,d,e,f,g,h' } })),
      ),
  ],
  [
    'sticky entries with probabilities',
    () =>
      requestFor(
        {},
        chat(400, 8),
        many(600, () => ({ constant: true, extensions: { probability: 50, sticky: 1 } })),
      ),
  ],
  ['dice', () => requestFor({ description: '{{roll:1000d1}}'.repeat(2900) }, [user('Hello')])],
  [
    'formats of dates',
    () => requestFor({ description: `{{datetimeformat:${'LLLL'.repeat(45)}}}`.repeat(300) }, [user('Hello')]),
  ],
  [
    'keys that occur, but not as words',
    () =>
      requestFor(
        {},
        [user('ba'.repeat(30_000))],
        many(500, () => ({ keys: ['a'], extensions: { match_whole_words: true } })),
      ),
  ],
]

/** Ordinary chats. */
const ordinary: readonly (readonly [string, () => CompositionRequest])[] = [
  [
    'a card with 300 entries, and 100 messages',
    () =>
      requestFor(
        { description: 'A gardener called {{char}}. '.repeat(200), first_mes: 'Good morning, {{user}}.' },
        chat(100, 320),
        many(300, (index) => ({ keys: [`plant${index}`, `flower ${index}`], content: "Plant of {{char}}'s." })),
      ),
  ],
  [
    'a card with 300 greetings',
    () =>
      requestFor({ alternate_greetings: many(300, () => 'Good morning, {{user}}.') }, [assistant('Hello'), user('Hi')]),
  ],
]

describe('composing', () => {
  test.each(worst)('a small request that takes long spends the units of small work: %s', (_what, make) => {
    const request = make()
    expect(unitsOf(() => compose(request))).toBeGreaterThan(inlineUnits)
  })

  test.each(ordinary)('an ordinary request spends at most half of the units of small work: %s', (_what, make) => {
    const request = make()
    expect(unitsOf(() => compose(request))).toBeLessThan(inlineUnits / 2)
  })

  test.each(heavy)('takes work in proportion to the size of the request: %s', (_what, size, make) => {
    const sum = (request: CompositionRequest) => unitsOf(() => compose(request, { countTokens: letters }))
    const small = sum(make(size))
    expect(small).toBeGreaterThan(10_000)
    expect(sum(make(2 * size)) / small).toBeLessThan(2.5)
  })

  test('refuses a card that inserts its texts again and again, before these take too much memory', () => {
    const entries = many(2900, () => ({ constant: true, content: '{{description}}' }))
    const request = requestFor({ description: 'x'.repeat(1_000_000) }, [user('Hello')], entries)
    expect(refusalOf(() => composedAtOnce(request))).toEqual([400, 'card_too_large'])
  })
})

/** The status and code of the error that a call throws. */
function refusalOf(call: () => unknown): unknown {
  try {
    return call()
  } catch (error) {
    const { status, code } = toApiError(error)
    return [status, code]
  }
}

const text = fc
  .array(
    fc.constantFrom(
      'tea',
      ' ',
      'cup',
      '{{char}}',
      '{{user}}',
      '{{pick:a,b}}',
      '{{random:a,b}}',
      '{{description}}',
      '\n',
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((words) => words.join(''))
const entry = fc.record(
  {
    keys: fc.array(fc.constantFrom('tea', 'cup', '{{char}}', 'Ada', '/c.p/'), { maxLength: 3 }),
    content: fc
      .tuple(fc.constantFrom('', '', '@@depth 1\n', '@@dont_activate_after_match\n'), text)
      .map((parts) => parts.join('')),
    constant: fc.boolean(),
    insertion_order: fc.nat(3),
    extensions: fc.record({ group: fc.constantFrom('', 'g', 'g,h') }),
  },
  { requiredKeys: ['content'] },
)
const said = fc.array(fc.tuple(fc.boolean(), text), { minLength: 1, maxLength: 6 })

describe('a composition that ran out of fuel', () => {
  test('leaves nothing in a cache that changes later prompts of the card', () => {
    const card = fc.record({
      data: fc.record({ description: text, mes_example: text, first_mes: text }),
      entries: fc.array(entry, { minLength: 1, maxLength: 6 }),
    })
    const asking = fc.record({
      userName: fc.constantFrom('Ada', 'Bea'),
      said,
      seed: fc.string({ maxLength: 3 }),
      window: fc.constantFrom(undefined, 40),
      fuel: fc.nat(4000),
    })
    let ended = 0
    fc.assert(
      fc.property(card, fc.array(asking, { minLength: 2, maxLength: 5 }), (drawn, all) => {
        const personaOf = () => requestFor(drawn.data, [], drawn.entries).persona
        // Each composition alone gets a card object of its own, for which nothing is cached.
        const alone = all.map((each) => outcomeOf(requestOf(each, personaOf()), maxUnits))
        const persona = personaOf()
        for (const each of all) {
          const outcome = outcomeOf(requestOf(each, persona), each.fuel)
          if (outcome === 'out of fuel') ended++
        }
        expect(all.map((each) => outcomeOf(requestOf(each, persona), maxUnits))).toEqual(alone)
      }),
      { numRuns: 200 },
    )
    expect(ended).toBeGreaterThan(50)
  })
})

interface Asking {
  readonly userName: string
  readonly said: readonly (readonly [boolean, string])[]
  readonly seed: string
  readonly window: number | undefined
}

function requestOf(
  { userName, said: words, seed, window }: Asking,
  persona: CompositionRequest['persona'],
): CompositionRequest {
  return fullRequest({
    persona: { ...persona, userName },
    messages: words.map(([isUsers, content]) => (isUsers ? user : assistant)(content)),
    settings,
    randomSeed: seed,
    now: new Date(0),
    overflow: 'drop-oldest',
    contextWindow: window,
  })
}

/** A composition with a budget of units, or its error. */
function outcomeOf(request: CompositionRequest, fuel: number): Composition | string {
  try {
    return withFuel(fuel, () => compose(request, { countTokens: letters }))
  } catch (error) {
    return error instanceof OutOfFuel ? 'out of fuel' : toApiError(error).message
  }
}
