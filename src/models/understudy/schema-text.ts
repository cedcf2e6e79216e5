import { valueIn } from '../../fields.ts'
import { textForPattern } from './pattern.ts'
import { maxLetters, numberIn, type Schema, SchemaTooLargeError } from './schema.ts'

/** Functions that make texts of common `format`s. Different variants usually give different texts. */
const formats: Readonly<Record<string, (variant: number) => string>> = {
  date: (variant) => day(variant).slice(0, 10),
  'date-time': day,
  time: (variant) => `${day(0).slice(11, 17)}${two(variant % 60)}Z`,
  duration: (variant) => `P${variant + 1}D`,
  email: (variant) => `understudy${variant || ''}@example.com`,
  'idn-email': (variant) => `understudy${variant || ''}@example.com`,
  hostname: (variant) => `example${variant || ''}.com`,
  'idn-hostname': (variant) => `example${variant || ''}.com`,
  ipv4: (variant) => `192.0.2.${variant % 256}`,
  ipv6: (variant) => `2001:db8::${variant.toString(16)}`,
  uuid: (variant) => `00000000-0000-4000-8000-${variant.toString(16).padStart(12, '0')}`,
  uri: (variant) => `https://example.com/${variant || ''}`,
  'uri-reference': (variant) => `/${variant || ''}`,
  iri: (variant) => `https://example.com/${variant || ''}`,
  'json-pointer': (variant) => `/${variant}`,
  regex: (variant) => `a{${variant + 1}}`,
}

/** A text for the `format` or the `pattern` of a schema. Undefined if the schema has neither, or if they are not supported. */
export function formattedText(schema: Schema, variant: number): string | undefined {
  const { format, pattern } = schema
  const make = typeof format === 'string' ? valueIn(formats, format) : undefined
  if (make) return make(variant)
  if (typeof pattern !== 'string') return undefined
  return textForPattern(pattern, numberIn(schema, 'minLength') ?? 0, variant)
}

/**
 * Cuts or fills a text to the lengths of a schema, counted in code points as JSON Schema does.
 * @throws SchemaTooLargeError for a text that would be too long
 */
export function fillText(schema: Schema, text: string): string {
  const minLength = numberIn(schema, 'minLength') ?? 0
  const maxLength = numberIn(schema, 'maxLength') ?? Infinity
  if (Math.max(minLength, Math.min(text.length / 2, maxLength)) > maxLetters) {
    throw new SchemaTooLargeError('it asks for too long a text')
  }
  // A code point has at most two UTF-16 code units, and no value has more than `maxLetters` letters.
  const letters = [...text.slice(0, 2 * maxLetters).toWellFormed()]
  if (letters.length > maxLength) return letters.slice(0, maxLength).join('')
  return letters.join('') + '.'.repeat(Math.max(0, minLength - letters.length))
}

function day(variant: number): string {
  return new Date(Date.UTC(2026, 0, 1 + variant)).toISOString().replace('.000', '')
}

function two(value: number): string {
  return String(value).padStart(2, '0')
}
