import { spend } from '../../work/fuel.ts'
import {
  asNames,
  asTypes,
  checkLetters,
  isObject,
  type Json,
  join,
  lettersOfPart,
  listIn,
  maxLetters,
  membersOf,
  numberIn,
  objectIn,
  resolve,
  type Schema,
  SchemaTooLargeError,
} from './schema.ts'
import { numberFor } from './schema-number.ts'
import { fillText, formattedText } from './schema-text.ts'

/** The source of free texts in a value. */
export interface TextSource {
  /** The next text for a property that may have any text. */
  next(): string
  /** Whether the question names this value of an `enum`. Such a value is chosen. */
  mentions(value: string): boolean
}

/** Maximum depth of a value. A schema that needs a deeper value is refused. */
const maxDepth = 100
/**
 * The most letters of a value that is looked for in the question. Longer values are not looked for, because no question is
 * longer.
 */
const maxMentionLength = 2000
/** From this depth on, a branch without members is preferred to the first branch, so that recursive schemas end. */
const depthOfShortBranches = 8

/** Units of work for each part of a value, each level above the part, and each member of the schema that is read. */
const unitsOfPart = 300
const unitsOfLevel = 10
const unitsOfMember = 20
/** Units of work for each letter of a value that is looked for in the question. A letter may be folded to 18 letters. */
const unitsOfLetter = 50

/**
 * Makes a small value that fits a JSON Schema: only required properties, as few items as possible, the first branch, and numbers
 * near 0. Ignores `not`, `if`, `contains`, `dependent…`, `propertyNames`, `patternProperties` and uncommon `format`s.
 * @throws SchemaTooLargeError if this value is too large
 */
export function valueFor(schema: unknown, texts: TextSource): Json {
  return new ValueMaker(schema, texts).make(schema, 0, 0)
}

class ValueMaker {
  readonly #document: unknown
  readonly #texts: TextSource
  /** Letters of the value so far. */
  #letters = 0
  /** For each `enum` array, the value that the question names. */
  readonly #mentioned = new Map<readonly unknown[], unknown>()

  constructor(document: unknown, texts: TextSource) {
    this.#document = document
    this.#texts = texts
  }

  /**
   * Makes a value for this part of the schema. Variants give different values, because the items of an array may have to be
   * unique.
   */
  make(schema: unknown, depth: number, variant: number): Json {
    if (depth > maxDepth) throw new SchemaTooLargeError('its smallest value nests too deep')
    this.#grow(lettersOfPart)
    spend(unitsOfPart + unitsOfLevel * depth + unitsOfMember * membersOf(schema))
    if (!isObject(schema)) return this.#made(variantOf(this.#texts.next(), variant))
    if (typeof schema['$ref'] === 'string') {
      const { $ref: reference, ...beside } = schema
      return this.#both(beside, resolve(this.#document, schema['$ref']), depth, variant)
    }
    const all = listIn(schema, 'allOf')
    if (all[0] !== undefined) return this.#both({ ...schema, allOf: all.slice(1) }, all[0], depth, variant)
    for (const keyword of ['anyOf', 'oneOf']) {
      const branches = listIn(schema, keyword).filter((branch) => branch !== false)
      spend(unitsOfMember * branches.length)
      const branch = depth < depthOfShortBranches ? branches[0] : (branches.find(endsSoon) ?? branches[0])
      if (branch !== undefined) return this.#both(without(schema, keyword), branch, depth, variant)
    }
    const lettersBefore = this.#letters
    const value = this.#plain(schema, depth, variant)
    spend(this.#letters - lettersBefore)
    return value
  }

  #both(schema: Schema, other: unknown, depth: number, variant: number): Json {
    return this.make(isObject(other) ? join(schema, other) : schema, depth + 1, variant)
  }

  #plain(schema: Schema, depth: number, variant: number): Json {
    if (isJson(schema['const'])) return this.#given(schema['const'])
    const choices = listIn(schema, 'enum')
    if (choices.length > 0) return this.#choose(choices, variant)
    const type = typeOf(schema)
    if (variant === 0 && isJson(schema['default']) && isOfType(schema['default'], type)) {
      return this.#given(schema['default'])
    }
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
      default:
        return this.#made(formattedText(schema, variant) ?? fillText(schema, variantOf(this.#texts.next(), variant)))
    }
  }

  #choose(choices: readonly unknown[], variant: number): Json {
    if (variant === 0 && !this.#mentioned.has(choices)) {
      this.#mentioned.set(choices, this.#mentionedOf(choices))
    }
    const mentioned = variant === 0 ? this.#mentioned.get(choices) : undefined
    const chosen = mentioned ?? choices[variant % choices.length]
    return isJson(chosen) ? this.#given(chosen) : null
  }

  /** The first choice that the question names. */
  #mentionedOf(choices: readonly unknown[]): unknown {
    for (const choice of choices) {
      if (typeof choice !== 'string' || choice === '') continue
      spend(unitsOfPart + unitsOfLetter * Math.min(choice.length, maxMentionLength))
      if (choice.length <= maxMentionLength && this.#texts.mentions(choice)) return choice
    }
    return undefined
  }

  /** Counts the letters of a value that is part of the schema. */
  #given<T extends Json>(value: T): T {
    this.#grow(checkLetters(value))
    return value
  }

  #made(text: string): string {
    this.#grow(text.length)
    return text
  }

  /** Counts letters. @throws SchemaTooLargeError if the value has too many */
  #grow(letters: number): void {
    this.#letters += letters
    if (this.#letters > maxLetters) throw new SchemaTooLargeError('its smallest value is too large')
  }

  #object(schema: Schema, depth: number, variant: number): Json {
    const properties = objectIn(schema, 'properties')
    const names = namesOf(schema, properties, variant)
    const minCount = numberIn(schema, 'minProperties') ?? 0
    spend(unitsOfMember * (names.size + membersOf(properties)))
    for (let index = 1; names.size < minCount; index += 1) {
      if (index > maxLetters) throw new SchemaTooLargeError('it asks for too many properties')
      names.add(`property${index}`)
    }
    const fields: [string, Json][] = []
    for (const name of names) {
      this.#made(name)
      const own = Object.hasOwn(properties, name) ? properties[name] : schema['additionalProperties']
      fields.push([name, this.make(own, depth + 1, variant)])
    }
    return Object.fromEntries(fields)
  }

  #array(schema: Schema, depth: number, variant: number): Json {
    // Before draft 2020-12, `items` had the items of a tuple, and `additionalItems` described further items.
    const isOldTuple = Array.isArray(schema['items'])
    const first = listIn(schema, isOldTuple ? 'items' : 'prefixItems')
    const isUnique = schema['uniqueItems'] === true
    const values: Json[] = []
    while (values.length < (numberIn(schema, 'minItems') ?? 0)) {
      const index = values.length
      const item = index < first.length ? first[index] : schema[isOldTuple ? 'additionalItems' : 'items']
      values.push(this.make(item, depth + 1, isUnique ? index + variant : variant))
    }
    return values
  }
}

/** The names of an object's fields: the required fields, and further properties up to `minProperties`. */
function namesOf(schema: Schema, properties: Schema, variant: number): Set<string> {
  const names = new Set(asNames(schema['required']))
  const missing = Math.max(0, (numberIn(schema, 'minProperties') ?? 0) - names.size)
  const others = Object.keys(properties).filter((name) => !names.has(name))
  for (const name of others.slice(0, missing)) names.add(name)
  if (names.size > 0 || variant === 0) return names
  // All objects without fields are equal, so a variant gets one property. Its value must not contain other values: a recursive
  // schema would never end.
  return new Set(others.filter((name) => endsSoon(properties[name])).slice(0, 1))
}

function variantOf(text: string, variant: number): string {
  return variant === 0 ? text : `${variant + 1} ${text}`
}

function without(schema: Schema, keyword: string): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== keyword))
}

/** Whether it is certain that a value of this branch has no members. */
function endsSoon(branch: unknown): boolean {
  if (!isObject(branch)) return true
  return (
    !['$ref', 'allOf', 'anyOf', 'oneOf'].some((keyword) => keyword in branch) &&
    !['object', 'array'].includes(typeOf(branch))
  )
}

const keywordTypes: readonly (readonly [type: string, keywords: readonly string[]])[] = [
  ['object', ['properties', 'required', 'additionalProperties', 'minProperties', 'patternProperties']],
  ['array', ['items', 'prefixItems', 'minItems', 'uniqueItems']],
  ['number', ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']],
]

/**
 * The type of the value to make: the schema's first type except null, otherwise the type to which the schema's keywords belong.
 */
function typeOf(schema: Schema): string {
  const types = asTypes(schema['type'])
  const names = types.filter((name) => typeof name === 'string')
  const named = names.find((name) => name !== 'null') ?? names[0]
  if (named !== undefined) return named
  const hasAny = (keywords: readonly string[]) => keywords.some((keyword) => Object.hasOwn(schema, keyword))
  return keywordTypes.find(([, keywords]) => hasAny(keywords))?.[0] ?? 'string'
}

function isOfType(value: Json, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'null') return value === null
  return type === 'object' ? isObject(value) : typeof value === type
}

function isJson(value: unknown): value is Json {
  return value !== undefined
}
