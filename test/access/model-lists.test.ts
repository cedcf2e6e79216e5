import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type ModelList,
  type ModelUser,
  maxModelEntries,
  mayUseModel,
  modelListOf,
  modelListProblem,
  modelsExceed,
  modelsToStore,
  storedModels,
  usablePartsOf,
} from '../../src/access/model-lists.ts'

// The ids have few letters, so that ids and prefixes often match.
const part = fc.constantFrom('a', 'b', 'ab')
const id = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))
const entry = fc.oneof(
  id,
  id.map((text) => `${text}/*`),
)
const list: fc.Arbitrary<ModelList | null> = fc.option(fc.array(entry, { minLength: 1, maxLength: 4 }), { nil: null })
const user: fc.Arbitrary<ModelUser> = fc.record({ models: list, account: fc.record({ models: list }) })

/** Whether a list allows an id: another implementation of the rule, to compare with. */
function allows(models: ModelList | null, name: string): boolean {
  if (models === null || models.includes(name)) return true
  const slashes = [...name.matchAll(/\//g)].map(({ index }) => index).filter((index) => index < name.length - 1)
  return slashes.some((index) => models.includes(`${name.slice(0, index)}/*`))
}

describe('a model', () => {
  it('may be used when the key’s list and the account’s each allow one of its names', () => {
    fc.assert(
      fc.property(user, fc.array(id, { minLength: 1, maxLength: 2 }), (each, names) => {
        const isAllowed = [each.models, each.account.models].every((models) =>
          names.some((name) => allows(models, name)),
        )
        expect(mayUseModel(each, names)).toBe(isAllowed)
      }),
    )
  })

  it.each([
    ['a', 'a', true],
    ['a', 'A', false],
    ['a', 'ab', false],
    ['a/*', 'a', false],
    ['a/*', 'a/', false],
    ['a/*', 'a/b', true],
    ['a/*', 'a/b/c', true],
    ['a/*', 'ab/c', false],
    ['a/b', 'a/b/c', false],
  ])('with the list [%s]: %s may be used: %s', (only, name, isAllowed) => {
    expect(mayUseModel({ models: [only], account: { models: null } }, [name])).toBe(isAllowed)
    expect(mayUseModel({ models: null, account: { models: [only] } }, [name])).toBe(isAllowed)
  })
})

it('the usable parts of a prefix are exactly what both lists allow', () => {
  fc.assert(
    fc.property(user, id, id, (each, begin, name) => {
      fc.pre(!mayUseModel(each, [`${begin}/*`]))
      const parts = usablePartsOf(`${begin}/*`, each)
      const isUsable = name.startsWith(`${begin}/`) && mayUseModel(each, [name])
      expect(allows(parts, name)).toBe(isUsable)
    }),
  )
})

describe('the list of a requested key', () => {
  it('allows no model that its maker may not use, if the check accepts the list', () => {
    fc.assert(
      fc.property(
        list,
        list,
        list,
        fc.array(id, { minLength: 1, maxLength: 2 }),
        (models, requested, account, names) => {
          const maker = { models, account: { models: account } }
          fc.pre(!modelsExceed(maker, requested))
          const made = { models: requested, account: { models: account } }
          if (mayUseModel(made, names)) expect(mayUseModel(maker, names)).toBe(true)
        },
      ),
    )
  })

  it('is accepted if its maker has no list or the same list, and refused if it covers more', () => {
    fc.assert(
      fc.property(list, list, (models, requested) => {
        expect(modelsExceed({ models: null }, requested)).toBe(false)
        expect(modelsExceed({ models }, models)).toBe(false)
        expect(modelsExceed({ models }, null)).toBe(models !== null)
      }),
    )
    expect(modelsExceed({ models: ['a/*'] }, ['a/b', 'a/b/*', 'a/*'])).toBe(false)
    for (const more of ['a', 'b', 'b/*', 'ab/*', 'default']) {
      expect(modelsExceed({ models: ['a/*'] }, ['a/b', more])).toBe(true)
    }
    expect(modelsExceed({ models: ['a/b'] }, ['a/*'])).toBe(true)
  })
})

describe('the entries of a list', () => {
  it.each([
    [[], /^names no model; /],
    [Array.from({ length: maxModelEntries + 1 }, (_, at) => `m${at}`), /^has more than 100 entries; /],
    [['a', ' '], /^has an entry that is blank; /],
    [['a\nb'], /^has an entry that has control characters; /],
    [['\ud800'], /^has an entry that has half of a surrogate pair; /],
    [['x'.repeat(256)], /^has an entry that is longer than 255 characters; /],
    [['a*'], /^has the entry "a\*"; /],
    [['/*'], /^has the entry "\/\*"; /],
    [['*/a'], /^has the entry /],
    [['a/*/b'], /^has the entry /],
    [['**'], /^has the entry /],
  ])('%j are refused', (entries, problem) => {
    expect(modelListProblem(entries)).toMatch(problem)
  })

  it('are each stored once, without surrounding spaces; the entry * means all models', () => {
    for (const entries of [['a'], ['a/*'], ['*'], ['a b'], ['a', 'b/c/*']]) {
      expect(modelListProblem(entries)).toBeUndefined()
    }
    expect(modelListOf([' a', 'b/* ', 'a'])).toStrictEqual(['a', 'b/*'])
    expect(modelListOf(['a', '*'])).toBeNull()
  })

  it('are read from the database as they were written', () => {
    fc.assert(
      fc.property(list, (models) => {
        expect(storedModels(modelsToStore(models))).toStrictEqual(models)
      }),
    )
  })
})
