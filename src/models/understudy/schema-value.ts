import { valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { textForPattern } from './pattern.ts'
import {
  isObject,
  itemsOf,
  join,
  membersOf,
  numberIn,
  requiredIn,
  resolve,
  type Schema,
  SchemaTooLargeError,
  typesIn,
} from './schema.ts'

/** The source of free texts in a value. */
export interface TextSource {
  /** The next text for a property that may have any text. */
  next(): string
  /** Whether the question names this value of an `enum`. Such a value is chosen. */
  mentions(value: string): boolean
}

/** Bounds of a value: its letters as JSON, its depth, and the schemas that are joined for one part of it. */
const maxLetters = 100_000
const maxDepth = 100
const maxJoined = 200
/** Each part counts as so many letters, because making, writing and tokenizing a part takes time. */
const lettersOfPart = 5
/** The most letters of a value that is looked for in the question, which is not longer. */
const maxMentionLength = 2000
/** From this depth on, a branch without members is preferred to the first branch, so that recursive schemas end. */
const depthOfShortBranches = 8

/** Units of work for each part of a value, and for each letter of a value that is looked for. It may be folded to 18 letters. */
const unitsOfPart = 300
const unitsOfLetter = 50

/**
 * Makes a small value that fits a JSON Schema: only required properties, as few items as possible, the first branch, and numbers
 * near 0. Ignores `not`, `if`, `contains`, `dependent…`, `propertyNames`, `patternProperties` and uncommon `format`s.
 * @throws SchemaTooLargeError if this value is too large
 */
export function valueFor(schema: unknown, texts: TextSource): unknown {
  return new ValueMaker(schema, texts).make(schema, 0, 0)
}

class ValueMaker {
  readonly #document: unknown
  readonly #texts: TextSource
  /** The values of enums that the question names. */
  readonly #named = new Map<unknown, unknown>()
  /** Letters of the value so far. */
  #letters = 0

  constructor(document: unknown, texts: TextSource) {
    this.#document = document
    this.#texts = texts
  }

  /** Makes a value for a part of the schema. Variants give different values, because items of an array may have to be unique. */
  make(part: unknown, depth: number, variant: number): unknown {
    if (depth > maxDepth) throw new SchemaTooLargeError('its smallest value nests too deep')
    this.#count(lettersOfPart)
    spend(unitsOfPart)
    const schema = this.#joined(part, depth)
    const choices = schema['const'] === undefined ? itemsOf(schema['enum']) : [schema['const']]
    if (choices.length > 0) {
      const chosen = this.#choice(choices, variant)
      this.#count(JSON.stringify(chosen).length)
      return chosen
    }
    const type = typeOf(schema)
    switch (type) {
      case 'object':
        return this.#object(schema, depth, variant)
      case 'array':
        return this.#array(schema, depth, variant)
      case 'number':
      case 'integer':
        return numberFor(schema, type === 'integer', variant)
      case 'boolean':
        return variant % 2 === 1
      case 'null':
        return null
      default: {
        const text = textFor(schema, this.#texts, variant)
        this.#count(text.length)
        return text
      }
    }
  }

  /** One schema without references and branches. */
  #joined(part: unknown, depth: number): Schema {
    let joined: Schema = {}
    const open = [part]
    for (let count = 0; open.length > 0; count += 1) {
      if (count > maxJoined) throw new SchemaTooLargeError('its smallest value nests too deep')
      const next = open.pop()
      if (!isObject(next)) continue
      const { $ref: reference, allOf, anyOf, oneOf, ...own } = next
      joined = join(joined, own)
      for (const branches of [itemsOf(oneOf), itemsOf(anyOf)]) {
        const possible = branches.filter((branch) => branch !== false)
        open.push((depth + count < depthOfShortBranches ? undefined : possible.find(endsSoon)) ?? possible[0])
      }
      open.push(...itemsOf(allOf).toReversed())
      if (typeof reference === 'string') open.push(resolve(this.#document, reference))
    }
    return joined
  }

  /** The first value of an enum that the question names, or the first of all; for a variant, another one. */
  #choice(choices: readonly unknown[], variant: number): unknown {
    if (variant > 0) return choices[variant % choices.length]
    const isNamed = (choice: unknown) => {
      if (typeof choice !== 'string' || choice === '' || choice.length > maxMentionLength) return false
      spend(unitsOfPart + unitsOfLetter * choice.length)
      return this.#texts.mentions(choice)
    }
    const named = this.#named.get(choices) ?? choices.find(isNamed) ?? choices[0]
    this.#named.set(choices, named)
    return named
  }

  /** Counts letters. @throws SchemaTooLargeError if the value has too many */
  #count(letters: number): void {
    spend(letters)
    this.#letters += letters
    if (this.#letters > maxLetters) throw new SchemaTooLargeError('its smallest value is too large')
  }

  #object(schema: Schema, depth: number, variant: number): unknown {
    const properties = membersOf(schema['properties'])
    const fields: [string, unknown][] = []
    for (const name of this.#namesOf(schema, properties, variant)) {
      this.#count(name.length)
      const own = Object.hasOwn(properties, name) ? properties[name] : schema['additionalProperties']
      fields.push([name, this.make(own, depth + 1, variant)])
    }
    return Object.fromEntries(fields)
  }

  /** The names of an object's fields: the required fields, and others up to `minProperties`. */
  #namesOf(schema: Schema, properties: Schema, variant: number): ReadonlySet<string> {
    const names = new Set(requiredIn(schema))
    const minCount = numberIn(schema, 'minProperties') ?? 0
    if (minCount * lettersOfPart > maxLetters) throw new SchemaTooLargeError('it asks for too many properties')
    const others = Object.keys(properties)
    for (let index = 0; names.size < minCount; index += 1)
      names.add(others[index] ?? `property${index - others.length + 1}`)
    // All objects without fields are equal, so a variant gets a field. Its value has no members: a recursive schema would never end.
    const own = names.size === 0 && variant > 0 ? others.find((name) => endsSoon(properties[name])) : undefined
    return own === undefined ? names : names.add(own)
  }

  #array(schema: Schema, depth: number, variant: number): unknown {
    // Before draft 2020-12, `items` had the items of a tuple, and `additionalItems` described further items.
    const isOldTuple = Array.isArray(schema['items'])
    const first = itemsOf(schema[isOldTuple ? 'items' : 'prefixItems'])
    const values: unknown[] = []
    while (values.length < (numberIn(schema, 'minItems') ?? 0)) {
      const index = values.length
      const item = index < first.length ? first[index] : schema[isOldTuple ? 'additionalItems' : 'items']
      values.push(this.make(item, depth + 1, schema['uniqueItems'] === true ? index + variant : variant))
    }
    return values
  }
}

/** Whether it is certain that a value of this branch has no members. */
function endsSoon(branch: unknown): boolean {
  if (!isObject(branch)) return true
  const isJoined = ['$ref', 'allOf', 'anyOf', 'oneOf'].some((keyword) => keyword in branch)
  return !isJoined && !['object', 'array'].includes(typeOf(branch))
}

/** The keywords that only one type has. */
const keywordTypes = {
  object: ['properties', 'required', 'additionalProperties', 'minProperties'],
  array: ['items', 'prefixItems', 'minItems'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
}

/** The type of the value: the schema's first type except null, otherwise the type to which the schema's keywords belong. */
function typeOf(schema: Schema): string {
  const types = typesIn(schema)
  const isUsed = ([, keywords]: readonly [string, readonly string[]]) => keywords.some((each) => each in schema)
  const implied = () => Object.entries(keywordTypes).find(isUsed)?.[0] ?? 'string'
  return types.find((name) => name !== 'null') ?? types[0] ?? implied()
}

/**
 * A number that fits a schema: 0 if 0 fits. Variants give different numbers, if so many numbers fit.
 * @param isInteger whether it has to be a whole number
 */
function numberFor(schema: Schema, isInteger: boolean, variant: number): number {
  const [above, below] = [numberIn(schema, 'exclusiveMinimum'), numberIn(schema, 'exclusiveMaximum')]
  const low = Math.max(numberIn(schema, 'minimum') ?? -Infinity, above ?? -Infinity)
  const high = Math.min(numberIn(schema, 'maximum') ?? Infinity, below ?? Infinity)
  const fits = (value: number) => value >= low && value <= high && value !== above && value !== below
  const step = stepOf(numberIn(schema, 'multipleOf'), isInteger)
  if (step === undefined) {
    // Without 0, a number near the lower bound, or near the only bound.
    const beyond = Number.isFinite(low) ? low + Math.min(1, (high - low) / 2) : high - 1
    return varied(fits(0) ? 0 : beyond, low, high, variant)
  }
  // A division may be off by a rounding error, so the neighbours are tried too.
  const around = (bound: number) => [-1, 0, 1].map((shift) => Math.round(bound / step) + shift)
  const first = around(low).find((count) => fits(timesStep(count, step))) ?? 0
  const last = around(high).findLast((count) => fits(timesStep(count, step))) ?? first
  // The multiple nearest to 0, and for variants those above it, then those below it.
  const start = Math.min(Math.max(0, first), last)
  const index = Number.isFinite(last - first) ? variant % (last - first + 1) : variant
  return timesStep(index <= last - start ? start + index : last - index, step)
}

/** Moves a number towards the farther bound, for each variant by another distance. */
function varied(start: number, low: number, high: number, variant: number): number {
  const end = high - start > start - low ? high : low
  if (variant === 0) return start
  return Number.isFinite(end) ? start + (end - start) / (variant + 1) : start + Math.sign(end) * variant
}

/** The distance of the numbers that fit; undefined for any number. */
function stepOf(multiple: number | undefined, isInteger: boolean): number | undefined {
  if (multiple === undefined || !(multiple > 0)) return isInteger ? 1 : undefined
  let step = multiple
  while (isInteger && !Number.isInteger(step) && step < 1000 * multiple) step += multiple
  return step
}

/** A multiple without errors of binary fractions: 3 * 0.1 is 0.3. */
function timesStep(count: number, step: number): number {
  const decimals = /\.(\d+)$/.exec(String(step))?.[1]?.length ?? 0
  return decimals > 0 ? Number((count * step).toFixed(decimals)) : count * step + 0
}

/** Functions that make texts of common `format`s. Different variants usually give different texts. */
const formats: Readonly<Record<string, (variant: number) => string>> = {
  date: (variant) => day(variant).slice(0, 10),
  'date-time': day,
  time: (variant) => `00:00:${String(variant % 60).padStart(2, '0')}Z`,
  duration: (variant) => `P${variant + 1}D`,
  email: (variant) => `understudy${variant || ''}@example.com`,
  hostname: (variant) => `example${variant || ''}.com`,
  ipv4: (variant) => `192.0.2.${variant % 256}`,
  ipv6: (variant) => `2001:db8::${variant.toString(16)}`,
  uuid: (variant) => `00000000-0000-4000-8000-${variant.toString(16).padStart(12, '0')}`,
  uri: (variant) => `https://example.com/${variant || ''}`,
}

function day(variant: number): string {
  return new Date(Date.UTC(2026, 0, 1 + variant)).toISOString().replace('.000', '')
}

/**
 * A text for the `format`, the `pattern` or the lengths of a schema, which are counted in code points as JSON Schema does.
 * @throws SchemaTooLargeError for a text that would be too long
 */
function textFor(schema: Schema, texts: TextSource, variant: number): string {
  const { format, pattern } = schema
  const minLength = numberIn(schema, 'minLength') ?? 0
  const make = typeof format === 'string' ? valueIn(formats, format) : undefined
  if (make) return make(variant)
  const fitting = typeof pattern === 'string' ? textForPattern(pattern, minLength, variant) : undefined
  if (fitting !== undefined) return fitting
  if (minLength > maxLetters) throw new SchemaTooLargeError('it asks for too long a text')
  const text = variant === 0 ? texts.next() : `${variant + 1} ${texts.next()}`
  const letters = [...text.slice(0, 2 * maxLetters).toWellFormed()].slice(0, numberIn(schema, 'maxLength') ?? Infinity)
  return letters.join('') + '.'.repeat(Math.max(0, minLength - letters.length))
}
