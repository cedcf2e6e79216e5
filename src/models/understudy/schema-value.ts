import { isObject, type Json, join, listIn, numberIn, objectIn, resolve, type Schema } from './schema.ts'
import { numberFor } from './schema-number.ts'
import { fillText, formattedText } from './schema-text.ts'
import { SchemaTooLargeError, Steps } from './step-budget.ts'

/** Where a value's free texts come from. */
export interface TextSource {
  /** The next text for a property that can hold any. */
  next(): string
  /** Whether the conversation names this value, so that it is the one to choose. */
  mentions(value: string): boolean
}

/** Steps down into a schema that are made before it is too large. */
const deepest = 100
/** Depth from which the branch that ends soonest is taken, so that recursive schemas come to an end. */
const deep = 8

/**
 * Makes a small value that fits a JSON Schema: required properties, least items, the first branch, the least number.
 * What it does not look at: `not`, `if`, `contains`, `dependent…`, `propertyNames` and `format`s beyond the common ones.
 * @param steps the budget for all of it
 * @throws SchemaTooLargeError when even the least value is too large, or takes too much work
 */
export function valueFor(schema: unknown, texts: TextSource, steps = new Steps()): Json {
  return new ValueMaker(schema, texts, steps).make(schema, 0, 0)
}

class ValueMaker {
  readonly #document: unknown
  readonly #texts: TextSource
  readonly #steps: Steps
  /** Which value of an `enum` the conversation names, by the enum's own array. */
  readonly #mentioned = new Map<readonly unknown[], unknown>()

  constructor(document: unknown, texts: TextSource, steps: Steps) {
    this.#document = document
    this.#texts = texts
    this.#steps = steps
  }

  /** A value for this part of the schema; variants of it differ, for arrays of unique items. */
  make(schema: unknown, depth: number, variant: number): Json {
    this.#steps.part()
    if (depth > deepest) throw new SchemaTooLargeError('its least value nests too deep')
    if (!isObject(schema)) return this.#said(variantOf(this.#texts.next(), variant))
    this.#steps.take(Object.keys(schema).length)
    if (typeof schema['$ref'] === 'string') {
      this.#steps.take(schema['$ref'].length)
      const { $ref: reference, ...beside } = schema
      return this.#both(beside, resolve(this.#document, schema['$ref']), depth, variant)
    }
    const all = listIn(schema, 'allOf')
    this.#steps.take(all.length)
    if (all[0] !== undefined) return this.#both({ ...schema, allOf: all.slice(1) }, all[0], depth, variant)
    for (const keyword of ['anyOf', 'oneOf']) {
      this.#steps.take(2 * listIn(schema, keyword).length)
      const branches = listIn(schema, keyword).filter((branch) => branch !== false)
      const branch = depth < deep ? branches[0] : (branches.find(endsSoon) ?? branches[0])
      if (branch !== undefined) return this.#both(without(schema, keyword), branch, depth, variant)
    }
    return this.#plain(schema, depth, variant)
  }

  #both(schema: Schema, other: unknown, depth: number, variant: number): Json {
    return this.make(isObject(other) ? join(schema, other, this.#steps) : schema, depth + 1, variant)
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
        return this.#object(schema, depth)
      case 'array':
        return this.#array(schema, depth)
      case 'number':
      case 'integer':
        return numberFor(schema, type === 'integer', variant, this.#steps)
      case 'boolean':
        return variant % 2 === 1
      case 'null':
        return null
      default:
        return this.#said(
          formattedText(schema, variant, this.#steps) ??
            fillText(schema, variantOf(this.#texts.next(), variant), this.#steps),
        )
    }
  }

  #choose(choices: readonly unknown[], variant: number): Json {
    if (variant === 0 && !this.#mentioned.has(choices)) {
      const mentioned = choices.find((choice) => {
        if (typeof choice !== 'string' || choice === '') return false
        this.#steps.part()
        this.#steps.letters(choice.length)
        return this.#texts.mentions(choice)
      })
      this.#mentioned.set(choices, mentioned)
    }
    const mentioned = variant === 0 ? this.#mentioned.get(choices) : undefined
    const chosen = mentioned ?? choices[variant % choices.length]
    return isJson(chosen) ? this.#given(chosen) : null
  }

  /** A value that the schema itself brings. */
  #given<T extends Json>(value: T): T {
    this.#steps.letters(typeof value === 'string' ? value.length : JSON.stringify(value).length)
    return value
  }

  /** A text that was made. */
  #said(text: string): string {
    this.#steps.letters(text.length)
    return text
  }

  #object(schema: Schema, depth: number): Json {
    const properties = objectIn(schema, 'properties')
    this.#steps.take(listIn(schema, 'required').length)
    const names = new Set(listIn(schema, 'required').filter((name) => typeof name === 'string'))
    const least = numberIn(schema, 'minProperties') ?? 0
    if (names.size < least) {
      const known = Object.keys(properties)
      this.#steps.take(known.length)
      for (const name of known.slice(0, Math.max(0, least))) if (names.size < least) names.add(name)
    }
    for (let index = 1; names.size < least; index += 1) {
      this.#steps.part()
      names.add(`property${index}`)
    }
    return Object.fromEntries(
      Array.from(names, (name) => {
        this.#said(name)
        const own = Object.hasOwn(properties, name) ? properties[name] : schema['additionalProperties']
        return [name, this.make(own, depth + 1, 0)]
      }),
    )
  }

  #array(schema: Schema, depth: number): Json {
    // Until 2019 a tuple's items stood in `items`, and `additionalItems` followed them.
    const isOldTuple = Array.isArray(schema['items'])
    const first = listIn(schema, isOldTuple ? 'items' : 'prefixItems')
    const isUnique = schema['uniqueItems'] === true
    const values: Json[] = []
    while (values.length < (numberIn(schema, 'minItems') ?? 0)) {
      const index = values.length
      const item = index < first.length ? first[index] : schema[isOldTuple ? 'additionalItems' : 'items']
      values.push(this.make(item, depth + 1, isUnique ? index : 0))
    }
    return values
  }
}

function variantOf(text: string, variant: number): string {
  return variant === 0 ? text : `${variant + 1} ${text}`
}

function without(schema: Schema, keyword: string): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== keyword))
}

/** Whether a branch needs nothing below it. */
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

/** The type of the value to make: the first that the schema names but null, or what its keywords speak of. */
function typeOf(schema: Schema): string {
  const { type } = schema
  const types = Array.isArray(type) ? type : [type]
  const isName = (name: unknown) => typeof name === 'string'
  const named = types.find((name) => isName(name) && name !== 'null') ?? types.find(isName)
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
