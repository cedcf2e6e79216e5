import {
  isObject,
  type Json,
  join,
  listIn,
  numberIn,
  objectIn,
  resolve,
  type Schema,
  SchemaTooLargeError,
} from './schema.ts'
import { numberFor } from './schema-number.ts'
import { fillText, formattedText } from './schema-text.ts'

/** Where a value's free texts come from. */
export interface TextSource {
  /** The next text for a property that can hold any. */
  next(): string
  /** Whether the conversation names this value, so that it is the one to choose. */
  mentions(value: string): boolean
}

/** Parts of a value, and steps down into a schema, that are made before it is too large. */
const mostParts = 10_000
const deepest = 100
/** Depth from which the branch that ends soonest is taken, so that recursive schemas come to an end. */
const deep = 8

/**
 * Makes a small value that fits a JSON Schema: required properties, least items, the first branch, the least number.
 * What it does not look at: `not`, `if`, `contains`, `dependent…`, `propertyNames` and `format`s beyond the common ones.
 * @throws SchemaTooLargeError when even the least value is too large
 */
export function valueFor(schema: unknown, texts: TextSource): Json {
  return new ValueMaker(schema, texts).make(schema, 0, 0)
}

class ValueMaker {
  readonly #document: unknown
  readonly #texts: TextSource
  #parts = 0

  constructor(document: unknown, texts: TextSource) {
    this.#document = document
    this.#texts = texts
  }

  /** A value for this part of the schema; variants of it differ, for arrays of unique items. */
  make(schema: unknown, depth: number, variant: number): Json {
    this.#parts += 1 + (isObject(schema) ? listIn(schema, 'enum').length / 100 : 0)
    if (this.#parts > mostParts || depth > deepest) throw new SchemaTooLargeError('its least value is too large')
    if (!isObject(schema)) return variantOf(this.#texts.next(), variant)
    if (typeof schema['$ref'] === 'string') {
      const { $ref: reference, ...beside } = schema
      return this.#both(beside, resolve(this.#document, schema['$ref']), depth, variant)
    }
    const [part, ...parts] = listIn(schema, 'allOf')
    if (part !== undefined) return this.#both({ ...schema, allOf: parts }, part, depth, variant)
    for (const keyword of ['anyOf', 'oneOf']) {
      const branches = listIn(schema, keyword).filter((branch) => branch !== false)
      const branch = depth < deep ? branches[0] : (branches.find(endsSoon) ?? branches[0])
      if (branch !== undefined) return this.#both(without(schema, keyword), branch, depth, variant)
    }
    return this.#plain(schema, depth, variant)
  }

  #both(schema: Schema, other: unknown, depth: number, variant: number): Json {
    return this.make(isObject(other) ? join(schema, other) : schema, depth + 1, variant)
  }

  #plain(schema: Schema, depth: number, variant: number): Json {
    if (isJson(schema['const'])) return schema['const']
    const choices = listIn(schema, 'enum').filter(isJson)
    if (choices.length > 0) return this.#choose(choices, variant)
    const type = typeOf(schema)
    if (variant === 0 && isJson(schema['default']) && isOfType(schema['default'], type)) return schema['default']
    switch (type) {
      case 'object':
        return this.#object(schema, depth)
      case 'array':
        return this.#array(schema, depth)
      case 'number':
      case 'integer':
        return numberFor(schema, type === 'integer', variant)
      case 'boolean':
        return variant % 2 === 1
      case 'null':
        return null
      default:
        return formattedText(schema, variant) ?? fillText(schema, variantOf(this.#texts.next(), variant))
    }
  }

  #choose(choices: readonly Json[], variant: number): Json {
    const mentioned = choices.find(
      (choice) => typeof choice === 'string' && choice !== '' && this.#texts.mentions(choice),
    )
    if (variant === 0 && mentioned !== undefined) return mentioned
    return choices[variant % choices.length] ?? null
  }

  #object(schema: Schema, depth: number): Json {
    const properties = objectIn(schema, 'properties')
    const names = new Set(listIn(schema, 'required').filter((name) => typeof name === 'string'))
    const least = numberIn(schema, 'minProperties') ?? 0
    for (const name of Object.keys(properties)) {
      if (names.size >= least) break
      names.add(name)
    }
    for (let index = 1; names.size < least; index += 1) {
      if (index > mostParts) throw new SchemaTooLargeError('it wants too many properties')
      names.add(`property${index}`)
    }
    return Object.fromEntries(
      Array.from(names, (name) => {
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

const keywordTypes: readonly (readonly [type: string, keywords: RegExp])[] = [
  ['object', /^(properties|required|additionalProperties|minProperties|patternProperties)$/],
  ['array', /^(items|prefixItems|minItems|uniqueItems)$/],
  ['number', /^(minimum|maximum|exclusiveMinimum|exclusiveMaximum|multipleOf)$/],
]

/** The type of the value to make: the first that the schema names but null, or what its keywords speak of. */
function typeOf(schema: Schema): string {
  const { type } = schema
  const types = (Array.isArray(type) ? type : [type]).filter((name) => typeof name === 'string')
  const named = types.find((name) => name !== 'null') ?? types[0]
  if (named !== undefined) return named
  const keywords = Object.keys(schema)
  return keywordTypes.find(([, pattern]) => keywords.some((keyword) => pattern.test(keyword)))?.[0] ?? 'string'
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
