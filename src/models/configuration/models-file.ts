import { type TSchema, Type } from '@sinclair/typebox'
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import { Value, ValuePointer } from '@sinclair/typebox/value'
import { ConfigError, type Environment, fitsHeader, plainAddress } from '../../config.ts'
import { type Fields, field, isFields, valueIn } from '../../fields.ts'
import { OwnFields, ownFields } from '../../openai/completion-request.ts'
import { nearest } from '../../text.ts'
import { adapterProblem } from './adapters.ts'
import { isFallback, type ModelSettings, type ModelsConfiguration, namesCharacter } from './model-settings.ts'
import { fitsRequest, isReadByService, paramsProblems } from './params.ts'
import {
  AiSdkSettings,
  FallbackSettings,
  LlamaCppSettings,
  OpenAiSettings,
  settingsSchema,
  UnderstudySettings,
} from './settings.ts'

/** The schema of `models.json`, for editors. The service itself checks more rules, and has better messages. */
export const ModelsFile = Type.Object(
  {
    $schema: Type.Optional(Type.String()),
    default: Type.Optional(
      Type.String({
        minLength: 1,
        description: 'The model for the id "default"; without this setting, the first name that is not a prefix.',
      }),
    ),
    models: Type.Record(
      Type.String({ minLength: 1 }),
      Type.Union([FallbackSettings, UnderstudySettings, OpenAiSettings, LlamaCppSettings, AiSdkSettings]),
      {
        description:
          'Models by the ids in requests. A name that ends in "/*" takes every id with this beginning, and sends the rest of the id upstream. The name "*" takes every other id.',
      },
    ),
  },
  { additionalProperties: false, title: 'The models of a Conservatory service' },
)

/**
 * Reads the text of a `models.json`.
 * @param environment the values for `${NAME}`
 * @throws ConfigError that lists every fault with its path. It does not repeat values that may be secret
 */
export function readModels(text: string, environment: Environment): ModelsConfiguration {
  const document = parse(text)
  const faults: string[] = []
  const models = new Map<string, ModelSettings>()
  if (!isFields(document)) throw new ConfigError(['models.json: it must be an object with "models".'])
  faults.push(...faultsOfNames(document))
  const entries = isFields(document['models']) ? Object.entries(document['models']) : []
  if (entries.length === 0) faults.push(fault('models', 'must be an object with at least one model'))
  for (const [name, raw] of entries) {
    const path = `models.${name}`
    const settings = fillIn(raw, path, environment, faults)
    const found = faultsOfModel(name, raw, settings, path)
    faults.push(...found)
    if (found.length === 0 && isModelSettings(settings)) models.set(name, settings)
  }
  const names = new Set(entries.map(([name]) => name))
  faults.push(...faultsOfFallbacks(models, names, new Map(entries)))
  const defaultModel = readDefault(document['default'], [...names], faults)
  if (faults.length > 0) throw new ConfigError(faults)
  return defaultModel === undefined ? { models } : { default: defaultModel, models }
}

/** Faults for unknown top-level settings. */
function faultsOfNames(document: Fields): readonly string[] {
  return Object.keys(document)
    .filter((name) => !['$schema', 'default', 'models'].includes(name))
    .map((name) => fault(name, `is not a setting; there are default and models${hint(name, ['default', 'models'])}`))
}

/**
 * The model that "default" names, else the first name that is not a prefix. Undefined if all names are prefixes, or "default" has
 * a fault.
 */
function readDefault(written: unknown, names: readonly string[], faults: string[]): string | undefined {
  const plain = names.filter((name) => !name.endsWith('*'))
  const defaultModel = written ?? plain[0]
  const found = plain.find((name) => name === defaultModel) ?? behindPrefix(defaultModel, names)
  if (defaultModel !== undefined && found === undefined) {
    faults.push(
      fault(
        'default',
        `${shown(defaultModel)}give the name of one of the models, not of a prefix${hint(defaultModel, plain)}`,
      ),
    )
  }
  return found
}

/** Returns the id if it begins with a prefix of the file and does not name a character. Otherwise undefined. */
function behindPrefix(id: unknown, names: readonly string[]): string | undefined {
  if (typeof id !== 'string' || id.endsWith('*') || namesCharacter(id)) return undefined
  return names.some((name) => name.endsWith('*') && id.length >= name.length && id.startsWith(name.slice(0, -1)))
    ? id
    : undefined
}

function parse(text: string): unknown {
  const bare = text.replace(/^\uFEFF/, '')
  try {
    return JSON.parse(bare)
  } catch (error) {
    // The parser's message is not repeated: it quotes the file, which may contain a key.
    const before = bare.slice(0, faultPosition(bare, error)).split('\n')
    throw new ConfigError([
      `models.json: it is not valid JSON at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}.`,
    ])
  }
}

/**
 * The index of the first fault in a JSON text. The parser reports the index of most faults, but not of an unexpected character.
 */
function faultPosition(text: string, error: unknown): number {
  const position = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined
  if (position !== undefined) return Number(position)
  // This is a binary search for the shortest beginning with this fault. All longer beginnings have the same fault.
  let without = 0
  let withIt = text.length
  while (withIt - without > 1) {
    const middle = (without + withIt) >> 1
    if (hasUnexpected(text.slice(0, middle))) withIt = middle
    else without = middle
  }
  return hasUnexpected(text) ? without : text.length
}

function hasUnexpected(text: string): boolean {
  try {
    JSON.parse(text)
    return false
  } catch (error) {
    return error instanceof Error && error.message.startsWith('Unexpected token')
  }
}

/** A copy of a value with every `${NAME}` in its texts filled in from the environment. */
function fillIn(value: unknown, path: string, environment: Environment, faults: string[]): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (match, name: string) => {
      const found = valueIn(environment, name)
      if (found !== undefined && found !== '') return found
      faults.push(fault(path, `names \${${name}}, which the environment does not have`))
      return match
    })
  }
  if (Array.isArray(value)) return value.map((item, index) => fillIn(item, `${path}[${index}]`, environment, faults))
  if (!isFields(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, fillIn(item, `${path}.${name}`, environment, faults)]),
  )
}

/** @param raw the settings before `${NAME}` is filled in. A fault may repeat only these values. */
function faultsOfModel(name: string, raw: unknown, settings: unknown, path: string): readonly string[] {
  if (name.trim() === '') return [fault('models', 'has a model without a name')]
  if (name.indexOf('*') !== -1 && name !== '*' && !/^[^*]+\/\*$/.test(name)) {
    return [fault(path, 'may have a * only at its end, after a slash')]
  }
  if (!isFields(settings)) return [fault(path, 'must be an object')]
  if ('fallback' in settings) {
    if (name.endsWith('*')) return [fault(path, 'is a prefix; a list of other models needs a full name')]
    return describeFaults(FallbackSettings, settings, raw, path)
  }
  const { adapter } = settings
  if (typeof adapter !== 'string') return [fault(path, 'needs an "adapter" or a "fallback"')]
  // The fault quotes the name before `${NAME}` is filled in, because a filled-in value may be a secret.
  const written = isFields(raw) && typeof raw['adapter'] === 'string' ? raw['adapter'] : ''
  const problem = adapterProblem(adapter, written)
  // The settings of an unknown adapter cannot be checked.
  if (problem !== undefined) return [fault(`${path}.adapter`, problem)]
  const misshapen = describeFaults(settingsSchema(adapter), settings, raw, path)
  const finer = misshapen.length > 0 ? [] : faultsOfConnection(settings, path)
  return [...misshapen, ...faultsOfDefaults(settings, path), ...faultsOfParams(settings, path), ...finer]
}

/**
 * The faults of a model's `defaults`. `model`, `messages` and `stream` can have no default. Defaults of the service's own fields,
 * and of other parameters that the service reads, must be valid.
 */
function faultsOfDefaults({ defaults }: Fields, path: string): readonly string[] {
  if (!isFields(defaults)) return []
  const forbidden = ['model', 'messages', 'stream']
    .filter((name) => name in defaults)
    .map((name) => fault(`${path}.defaults.${name}`, 'can have no default'))
  const wrong = ownFields
    .filter((name) => name in defaults && !Value.Check(OwnFields.properties[name], defaults[name]))
    .map((name) => fault(`${path}.defaults.${name}`, `is not valid; give ${expectedOf(OwnFields.properties[name])}`))
  const unreadable = Object.entries(defaults)
    .filter(([name, value]) => isReadByService(name) && !fitsRequest(name, value))
    .map(([name]) => fault(`${path}.defaults.${name}`, 'is not a valid value of this parameter'))
  return [...forbidden, ...wrong, ...unreadable]
}

/** The values that a field takes, in the words of the error message for requests. */
function expectedOf({ anyOf = [] }: TSchema): string {
  const [schema] = anyOf
  return String(schema?.errorMessage ?? 'another value').replace(/^send /, '')
}

function faultsOfParams({ params }: Fields, path: string): readonly string[] {
  return paramsProblems(params).map(({ place, problem }) => fault(`${path}.params.${place}`, problem))
}

const notPlain = 'is not a plain address such as https://api.openai.com/v1'

/** Headers that belong to a single request or connection, so that the operator must not set them. */
const headersOfRequests = new Set(['content-length', 'transfer-encoding', 'connection', 'host', 'upgrade', 'expect'])

/**
 * Faults of the address, and headers that HTTP does not allow. Without this check, each request would fail as if the upstream
 * were unreachable.
 */
function faultsOfConnection({ adapter, baseUrl, apiKey, headers }: Fields, path: string): readonly string[] {
  const faults: string[] = []
  const checkValue = (place: string, value: unknown): void => {
    if (typeof value !== 'string' || value === '' || fitsHeader.test(value)) return
    faults.push(fault(place, 'has characters that an HTTP header cannot carry; use only printable ASCII'))
  }
  if (typeof baseUrl === 'string' && plainAddress(baseUrl, adapter === 'openai') === undefined) {
    faults.push(fault(`${path}.baseUrl`, notPlain))
  }
  checkValue(`${path}.apiKey`, apiKey)
  for (const [name, value] of Object.entries(isFields(headers) ? headers : {})) {
    const place = `${path}.headers.${name}`
    if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(name)) faults.push(fault(place, 'is not a valid name of an HTTP header'))
    else if (headersOfRequests.has(name.toLowerCase())) faults.push(fault(place, 'is set by each request'))
    checkValue(place, value)
  }
  return faults
}

function describeFaults(schema: TSchema, value: unknown, raw: unknown, path: string): readonly string[] {
  const byPlace = new Map<string, string>()
  for (const error of Value.Errors(schema, value)) {
    const place = path + error.path.replace(/\/(\d+)(?=\/|$)/g, '[$1]').replaceAll('/', '.')
    if (!byPlace.has(place)) byPlace.set(place, describe(error, ValuePointer.Get(raw, error.path)))
  }
  return [...byPlace].map(([place, problem]) => fault(place, problem))
}

/** Settings with values that may contain a secret. */
const mayHoldSecrets = /^\/(?:apiKey|baseUrl|headers|options|providerOptions|defaults|params\/set)(?:\/|$)/

function describe({ type, schema, path }: ValueError, raw: unknown): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) {
    const name = path.slice(path.lastIndexOf('/') + 1)
    return `is not a setting of this adapter${hint(name, Object.keys(schema['properties'] ?? {}))}`
  }
  if (type === ValueErrorType.ObjectRequiredProperty) return 'is missing'
  const before = mayHoldSecrets.test(path) ? 'is not valid; ' : shown(raw)
  if (path === '/baseUrl' && type === ValueErrorType.StringPattern) return notPlain
  if (type === ValueErrorType.StringPattern) return `${before}give ${lowerFirst(schema.description ?? '')}`
  return `${before}give ${expected(schema)}`
}

/** The values that a schema takes, in words. */
function expected(schema: TSchema): string {
  const { minimum, maximum, minItems } = schema
  if (schema['const'] !== undefined) return JSON.stringify(schema['const'])
  if (Array.isArray(schema['anyOf']))
    return `one of ${schema['anyOf'].map((choice: TSchema) => expected(choice)).join(', ')}`
  if (schema['type'] === 'integer') {
    return maximum === undefined ? `a whole number from ${minimum} up` : `a whole number from ${minimum} to ${maximum}`
  }
  if (schema['type'] === 'number') return 'a number'
  if (schema['type'] === 'boolean') return 'true or false'
  if (schema['type'] === 'string') return schema['minLength'] === undefined ? 'a text' : 'a text that is not empty'
  if (schema['type'] !== 'array') return 'an object'
  return minItems === undefined ? 'a list' : 'a list of at least one, without repeats'
}

/** A wrong value, as the start of a sentence. An object or a long value is not quoted. */
function shown(value: unknown): string {
  const text = typeof value === 'object' ? undefined : JSON.stringify(value)
  return text === undefined || text.length > 100 ? 'is not valid; ' : `is ${text}; `
}

/** The name that the operator may have meant, as the end of a sentence. */
function hint(word: unknown, names: readonly string[]): string {
  const meant = typeof word === 'string' ? nearest(word, names) : undefined
  return meant === undefined ? '' : `. Did you mean ${meant}?`
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1).replace(/\.$/, '')
}

/** Faults for unknown names in fallback lists, and for circular lists. */
function faultsOfFallbacks(
  models: ReadonlyMap<string, ModelSettings>,
  names: ReadonlySet<string>,
  written: ReadonlyMap<string, unknown>,
): readonly string[] {
  const faults: string[] = []
  const isCircular = (name: string, path: readonly string[]): boolean => {
    const settings = models.get(name)
    if (path.includes(name)) return true
    return (
      settings !== undefined &&
      isFallback(settings) &&
      settings.fallback.some((next) => isCircular(next, [...path, name]))
    )
  }
  for (const [name, settings] of models) {
    if (!isFallback(settings)) continue
    for (const [index, target] of settings.fallback.entries()) {
      const isThere = names.has(target) && !target.endsWith('*')
      if (isThere) continue
      // The fault quotes the name before `${NAME}` is filled in, because a filled-in value may be a secret.
      const raw = field(field(written.get(name), 'fallback'), String(index))
      const problem = `is ${JSON.stringify(raw)}, which is no model of this file${hint(raw, [...names])}`
      faults.push(fault(`models.${name}.fallback[${index}]`, problem))
    }
    if (isCircular(name, [])) faults.push(fault(`models.${name}.fallback`, 'leads back to itself'))
  }
  return faults
}

function isModelSettings(value: unknown): value is ModelSettings {
  return isFields(value) && ('fallback' in value || 'adapter' in value)
}

function fault(path: string, problem: string): string {
  return `models.json: ${path} ${problem}${problem.endsWith('?') ? '' : '.'}`
}
