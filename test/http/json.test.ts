import fc from 'fast-check'
import Fastify from 'fastify'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { acceptJsonOnly, maxJsonDepth, parseJson } from '../../src/http/json.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { anyCharacter } from '../support/any-character.ts'

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** A key or a text with characters that a careless JSON parser misreads. */
const text = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 8 }),
  fc.string({ unit: fc.constantFrom('"', '\\', ':', '{', '}', '[', ']', ',', 'u', '\n', 'é', '🌵'), maxLength: 8 }),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'length', '0', '1', ''),
)

const { json } = fc.letrec<{ json: Json; array: Json; object: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom(null, true, false),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    text,
    tie('array'),
    tie('object'),
  ),
  array: fc.array(tie('json'), { maxLength: 5 }),
  object: fc.dictionary(text, tie('json'), { maxKeys: 5, noNullPrototype: true }),
}))

function parse(source: string): unknown {
  return parseJson(Buffer.from(source))
}

/** The status and code of the refusal, or the parsed value. */
function outcome(source: string | Uint8Array): unknown {
  try {
    return { value: parseJson(Buffer.from(source)) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return `${error.status} ${error.code}`
  }
}

describe('parseJson', () => {
  it('reads all output of JSON.stringify, with any indentation', () => {
    const indent = fc.constantFrom('', ' ', '\t', '\n')
    fc.assert(
      fc.property(json, indent, (value, space) => {
        const source = JSON.stringify(value, null, space)
        const parsed = parse(source)
        expect(JSON.stringify(parsed)).toBe(JSON.stringify(value))
      }),
      { numRuns: 500 },
    )
  })

  it('finds a repeated property in any object at any depth, however its name is escaped', () => {
    const escaped = (name: string, how: number) =>
      how % 2 === 0
        ? JSON.stringify(name)
        : `"${[...Array(name.length).keys()].map((index) => `\\u${name.charCodeAt(index).toString(16).padStart(4, '0')}`).join('')}"`
    fc.assert(
      fc.property(json, fc.nat(), fc.nat(), fc.nat(), json, (value, which, property, how, twin) => {
        // Writes the value, with a property of the chosen object repeated.
        const count = countObjects(value)
        fc.pre(count > 0)
        let turn = which % count
        const write = (part: Json): string => {
          if (Array.isArray(part)) return `[${part.map(write).join(',')}]`
          if (typeof part !== 'object' || part === null) return JSON.stringify(part)
          const entries = Object.entries(part)
          const isTurn = entries.length > 0 && turn-- === 0
          const written = entries.map(([name, inner]) => `${JSON.stringify(name)}:${write(inner)}`)
          const again = entries[property % Math.max(entries.length, 1)]
          if (isTurn && again) {
            written.splice(how % (written.length + 1), 0, `${escaped(again[0], how)} : ${JSON.stringify(twin)}`)
          }
          return `{${written.join(',')}}`
        }
        expect(outcome(write(value))).toBe('400 duplicate_property')
      }),
      { numRuns: 500 },
    )
  })

  it('agrees with JSON.parse on which texts are JSON, over texts that are nearly JSON', () => {
    const token = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ':',
      ',',
      '"a"',
      '"b"',
      // JSON.parse may confuse names with escapes (src/json.ts), but not these two.
      '"x\\"y"',
      '"x\\\\y"',
      '"',
      '\\',
      '1',
      'null',
      ' ',
    )
    fc.assert(
      fc.property(fc.array(token, { minLength: 1, maxLength: 12 }), (tokens) => {
        const source = tokens.join('')
        const result = outcome(source)
        let expected: unknown
        try {
          expected = { value: JSON.parse(source) }
        } catch {
          expected = '400 invalid_json'
        }
        if (result !== '400 duplicate_property') expect(result).toStrictEqual(expected)
        else expect(expected).toMatchObject({ value: expect.anything() })
      }),
      { numRuns: 5000 },
    )
  })

  it('refuses any bytes that are not JSON with a 400, and throws nothing else', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.string({ unit: anyCharacter }).map((some) => Buffer.from(some)),
    )
    fc.assert(
      fc.property(bytes, (some) => {
        const result = outcome(some)
        if (typeof result === 'string') expect(result).toMatch(/^400 (invalid_json|duplicate_property)$/)
        else expect(result).toStrictEqual({ value: JSON.parse(Buffer.from(some).toString()) })
      }),
      { numRuns: 2000 },
    )
  })

  it('counts the exact depth through arrays and objects', () => {
    const nested = fc.array(fc.boolean(), { minLength: maxJsonDepth - 2, maxLength: maxJsonDepth + 3 })
    fc.assert(
      fc.property(nested, (levels) => {
        const source = levels.reduce((inner, isArray) => (isArray ? `[${inner}]` : `{"x":${inner}}`), '"[{"')
        const result = outcome(source)
        if (levels.length > maxJsonDepth) expect(result).toBe('400 json_too_deep')
        else expect(result).toStrictEqual({ value: JSON.parse(source) })
      }),
      { numRuns: 200 },
    )
  })

  it('refuses a million levels without parsing them', () => {
    expect(outcome('['.repeat(1_000_000))).toBe('400 json_too_deep')
    expect(outcome('{"x":'.repeat(1_000_000))).toBe('400 json_too_deep')
  })
})

describe('acceptJsonOnly', () => {
  /** Starts a server that replies with the body that it has read. `seen` has the work of each large body. */
  async function listen() {
    const app = Fastify()
    onTestFinished(() => app.close())
    const seen: { param: string; signal: AbortSignal }[] = []
    let hold: Promise<void> | undefined
    acceptJsonOnly(app, (_request, signal) => ({
      ...workAtOnce(),
      async runInPool(param, job, input) {
        seen.push({ param, signal })
        await hold
        // The result of a worker is a structured clone.
        return structuredClone(workAtOnce().run(param, job, input))
      },
    }))
    app.setErrorHandler((error, _request, reply) => {
      if (!(error instanceof ApiError)) throw error
      reply.code(error.status).send({ code: error.code })
    })
    app.post('/', async ({ body }) => ({ body }))
    app.post('/numbers', { config: { numbersRead: new Set(['read']) } }, async ({ body }) => JSON.stringify(body))
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    const post = async (body: string, signal: AbortSignal | null = null, path = '/') =>
      await (
        await fetch(`${url}${path}`, { method: 'POST', body, signal, headers: { 'content-type': 'application/json' } })
      ).text()
    return { post, seen, holdUntil: (until: Promise<void>) => (hold = until) }
  }

  const text = 'x'.repeat(140_000)
  const large = (end: string) => `{"text":"${text}"${end}`

  it('reads large bodies in the pool, by the same rules as small bodies', async () => {
    const { post, seen } = await listen()
    expect(await post('{"a":1}')).toBe('{"body":{"a":1}}')
    expect(seen).toHaveLength(0)
    expect(await post(large('}'))).toBe(`{"body":{"text":"${text}"}}`)
    expect(await post(large(',"text":1}'))).toBe('{"code":"duplicate_property"}')
    expect(await post(large(''))).toBe('{"code":"invalid_json"}')
    const many = large(`,"a":[${'0,'.repeat(400_000)}0]}`)
    expect(await post(many.slice(0, 200_000))).toBe('{"code":"invalid_json"}')
    expect(await post(many)).toBe('{"code":"too_complex"}')
    expect(await post(large(`,"${'n'.repeat(300_000)}":0}`))).toBe('{"code":"too_complex"}')
    expect(seen.map(({ param, signal }) => [param, signal.aborted])).toStrictEqual(Array(6).fill(['body', false]))
  })

  it('keeps the numbers of a large body as they were written, except where they are read', async () => {
    const { post } = await listen()
    const numbers = ',"read":[9223372036854775807],"kept":[9223372036854775807,{"a":0.12345678901234567890,"b":1}]}'
    const read = ',"read":[9223372036854776000],"kept":[9223372036854775807,{"a":0.12345678901234567890,"b":1}]}'
    expect(await post(large(numbers), null, '/numbers')).toBe(large(read))
    expect(await post(`{"a":1${numbers}`, null, '/numbers')).toBe(`{"a":1${read}`)
  })

  it('ends the work when the caller leaves', async () => {
    const { post, seen, holdUntil } = await listen()
    const { promise, resolve } = Promise.withResolvers<void>()
    holdUntil(promise)
    const leaving = new AbortController()
    const reply = post(large('}'), leaving.signal)
    await expect.poll(() => seen.length).toBe(1)
    leaving.abort()
    await expect(reply).rejects.toThrow()
    await expect.poll(() => seen[0]?.signal.aborted).toBe(true)
    resolve()
  })
})

/** The number of objects with properties. */
function countObjects(value: Json): number {
  if (typeof value !== 'object' || value === null) return 0
  const parts: readonly Json[] = Array.isArray(value) ? value : Object.values(value)
  const inner = parts.reduce<number>((sum, part) => sum + countObjects(part), 0)
  return inner + (!Array.isArray(value) && parts.length > 0 ? 1 : 0)
}
