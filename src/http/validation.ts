import { KindGuard, type TSchema } from '@sinclair/typebox'
import type { TypeCheck, TypeCompiler, ValueError } from '@sinclair/typebox/compiler'
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify'
import { ApiError, invalidField } from '../errors.ts'

/**
 * Compiles route schemas with TypeBox. Bodies are checked as they are: nothing is coerced or removed. In queries and paths all
 * values are texts, so plain digits become a number if the schema asks for an integer.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const integers = httpPart === 'body' ? [] : integersOf(schema)
  let check: TypeCheck<TSchema> | undefined
  return (input: unknown) => {
    check ??= compiled(schema)
    const value = withNumbers(integers, input)
    if (check.Check(value)) return { value }
    return { error: describe(firstError(check, value), httpPart) }
  }
}

/**
 * Checks a part of a body that the schema of its route leaves open.
 * @throws ApiError 400 that names the field
 */
export function checkBody(schema: TSchema, value: unknown): void {
  const check = compiled(schema)
  if (!check.Check(value)) throw describe(firstError(check, value), 'body')
}

let compiler: typeof TypeCompiler | undefined
const checks = new WeakMap<TSchema, TypeCheck<TSchema>>()

/** Loads TypeBox's compiler, which is half of TypeBox, before the first validation, because validators are synchronous. */
export function loadCompilerWhenNeeded(app: FastifyInstance): void {
  app.addHook('preValidation', (_request, _reply, done) => {
    if (compiler) done()
    else loadCompiler().then(() => done(), done)
  })
}

async function loadCompiler(): Promise<void> {
  compiler ??= (await import('@sinclair/typebox/compiler')).TypeCompiler
}

/** The check of a schema. It is compiled once, even if several routes have the schema. */
function compiled(schema: TSchema): TypeCheck<TSchema> {
  const known = checks.get(schema)
  if (known) return known
  if (!compiler) throw new Error('the compiler is not loaded')
  const check = compiler.Compile(schema)
  checks.set(schema, check)
  return check
}

/** Replaces Fastify's serializers: the schemas of replies are only for the OpenAPI document, and do not change a reply. */
export const serializerCompiler = (): ((value: unknown) => string) => JSON.stringify

/** The names of the integers in the schema of an object. */
function integersOf(schema: TSchema): readonly string[] {
  if (!KindGuard.IsObject(schema)) return []
  return Object.keys(schema.properties).filter((name) => KindGuard.IsInteger(schema.properties[name]))
}

function withNumbers(integers: readonly string[], input: unknown): unknown {
  if (integers.length === 0 || typeof input !== 'object' || input === null) return input
  const values: Record<string, unknown> = { ...input }
  for (const name of integers) {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (typeof value === 'string' && /^-?\d+$/.test(value)) values[name] = Number(value)
  }
  return values
}

function firstError(check: TypeCheck<TSchema>, value: unknown): ValueError | undefined {
  let error = check.Errors(value).First()
  // In a union, the error with the longest path is the most useful, because its branch usually matched deepest. Of two paths of
  // the same length, the one with an `errorMessage` is more useful.
  while (error && error.errors.length > 0) {
    const current: ValueError = error
    const deepest = current.errors
      .map((iterator) => iterator.First())
      .filter((candidate) => candidate !== undefined)
      .toSorted((a, b) => b.path.length - a.path.length || Number(hasWords(b)) - Number(hasWords(a)))[0]
    if (!deepest) break
    const saysMore = deepest.path.length > current.path.length || (hasWords(deepest) && !hasWords(current))
    if (!saysMore) break
    error = deepest
  }
  return error
}

function hasWords({ schema }: ValueError): boolean {
  return typeof schema['errorMessage'] === 'string'
}

/**
 * The refusal of a value. Its sentence names the field and says what is wrong. If the schema has an `errorMessage`, that is the
 * end of the sentence. The sentence never contains the sent value, because this value may be the text of a message.
 */
function describe(error: ValueError | undefined, httpPart: string | undefined): ApiError {
  const where = httpPart === 'querystring' ? 'query parameter' : httpPart === 'params' ? 'path part' : 'field'
  if (!error || error.path === '') {
    const words = error?.schema['errorMessage']
    const message =
      typeof words === 'string' ? `The body is not valid: ${words}.` : 'The body must be a JSON object. Send one.'
    return new ApiError(400, 'invalid_body', message)
  }
  const param = dotted(error.path)
  if (error.value === undefined) {
    return new ApiError(400, 'missing_field', `The ${where} "${param}" is missing. Send it.`, { param })
  }
  const { errorMessage } = error.schema
  const sentence = typeof errorMessage === 'string' ? errorMessage : lowerFirst(error.message)
  return invalidField(param, `is not valid: ${sentence}`, `The ${where}`)
}

/** `/messages/0/role` as `messages[0].role`. */
function dotted(path: string): string {
  return path
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part, index) => (/^\d+$/.test(part) ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join('')
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}
