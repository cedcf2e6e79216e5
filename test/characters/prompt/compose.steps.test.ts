import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compose } from '../../../src/characters/prompt/compose.ts'
import type { Composition, CompositionRequest } from '../../../src/characters/prompt/composition.ts'
import { toApiError } from '../../../src/errors.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import type { Steps } from '../../../src/work.ts'
import { atOnce, composedAtOnce, counted } from '../../support/composed.ts'
import { assistant, cardOf, cardWithLore, user } from '../../support/lore-cards.ts'

type Fields = Readonly<Record<string, unknown>>

const settings = { systemPrompt: 'MAIN' }

function requestFor(data: Fields, messages: readonly Message[], entries: readonly Fields[] = []): CompositionRequest {
  const card = entries.length === 0 ? cardOf(data) : cardWithLore(entries, {}, data)
  return { persona: { name: 'Moss', card, userName: 'Ada', digest: 'd' }, messages, settings }
}

const many = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_none, index) => make(index))
const keys64 = (make: (index: number) => string) => many(64, make)
const chat = (count: number, length: number) =>
  many(count, (index) => (index % 2 === 0 ? user : assistant)(`word${index} `.repeat(length / 8)))
const letters = function* (text: string): Steps<number> {
  yield text.length
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
      countSteps: letters,
    }),
  ],
]

describe('composing', () => {
  test.each(heavy)('takes only short steps: %s', (_what, size, make) => {
    const { units } = counted(compose(make(2 * size)))
    // Milliseconds, if a unit of work takes 10 ns.
    expect(Math.max(...units) / 100_000).toBeLessThan(10)
    expect(units.length).toBeGreaterThan(5)
  })

  test.each(heavy)('takes work in proportion to the size of the request: %s', (_what, size, make) => {
    const sum = (request: CompositionRequest) => counted(compose(request)).units.reduce((all, each) => all + each, 0)
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

describe('interleaved compositions', () => {
  test('have the same results as without interleaving, although they share the caches of the card', () => {
    const card = fc.record({
      data: fc.record({ description: text, mes_example: text, first_mes: text }),
      entries: fc.array(entry, { minLength: 1, maxLength: 6 }),
    })
    const asking = fc.record({
      userName: fc.constantFrom('Ada', 'Bea'),
      said,
      seed: fc.nat(),
      window: fc.constantFrom(undefined, 40),
    })
    fc.assert(
      fc.property(
        card,
        fc.array(asking, { minLength: 2, maxLength: 5 }),
        fc.infiniteStream(fc.nat()),
        (drawn, all, order) => {
          const requests = () => {
            const { persona } = requestFor(drawn.data, [], drawn.entries)
            return all.map((each) => requestOf(each, persona))
          }
          // Each composition alone gets a card object of its own, for which nothing is cached.
          const alone = all.map((_each, index) => outcomeOf(() => atOnce(compose(requests()[index] ?? fail()))))
          expect(inTurns(requests().map(compose), order)).toEqual(alone)
        },
      ),
      { numRuns: 200 },
    )
  })
})

interface Asking {
  readonly userName: string
  readonly said: readonly (readonly [boolean, string])[]
  readonly seed: number
  readonly window: number | undefined
}

function requestOf(
  { userName, said: words, seed, window }: Asking,
  persona: CompositionRequest['persona'],
): CompositionRequest {
  let draw = seed
  return {
    persona: { ...persona, userName },
    messages: words.map(([isUsers, content]) => (isUsers ? user : assistant)(content)),
    settings,
    random: () => {
      draw = (draw * 7 + 3) % 101
      return draw / 101
    },
    now: new Date(0),
    overflow: 'drop-oldest',
    countSteps: letters,
    ...(window === undefined ? {} : { contextWindow: window }),
  }
}

function fail(): never {
  throw new Error('there is a request for each that asks')
}

/** Runs the steps of several generators in any order, until all generators have ended. */
function inTurns(all: readonly Steps<Composition>[], order: Iterator<number>): readonly unknown[] {
  const outcomes = new Map<number, unknown>()
  while (outcomes.size < all.length) {
    const index = Number(order.next().value) % all.length
    const steps = all[index]
    if (!steps || outcomes.has(index)) continue
    let isThrough = true
    const outcome = outcomeOf(() => {
      const { done, value } = steps.next()
      isThrough = done === true
      return done ? value : undefined
    })
    if (isThrough) outcomes.set(index, outcome)
  }
  return all.map((_steps, index) => outcomes.get(index))
}

/** A composition as plain data, or its error. */
function outcomeOf(compose: () => Composition | undefined): unknown {
  try {
    const composition = compose()
    // The entries contain compiled patterns, which cannot be cloned, so only the index of each entry is kept.
    const lore = composition?.lore.map(({ source, ...told }) => ({ ...told, index: source.index }))
    return composition && structuredClone({ ...composition, sections: composition.sections, lore })
  } catch (error) {
    return toApiError(error).message
  }
}
