import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import { Role } from '../../openai/completion-request.ts'

/** The schemas of `models.json`. An unknown property is a fault. Otherwise a misspelt setting would be ignored silently. */

const closed = { additionalProperties: false }

/** A time in milliseconds. The maximum is the maximum of Node's timers, because a timer with a longer time fires immediately. */
const milliseconds = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1, description }))

/** How long a model may take, in milliseconds. */
export const Timeouts = Type.Object(
  {
    connect: milliseconds('Time for the connection.'),
    firstToken: milliseconds('Time from the request to the first event of a stream.'),
    idle: milliseconds('Time between two events of a stream.'),
    total: milliseconds('Time from the request to the end of the answer.'),
  },
  { ...closed, description: 'Times of each attempt, in milliseconds.' },
)
export type Timeouts = Static<typeof Timeouts>

/** The circuit breaker of a model. */
export const BreakerSettings = Type.Object(
  {
    failures: Type.Optional(
      Type.Integer({
        minimum: 0,
        description:
          'The number of failed attempts in a row that opens the circuit breaker, or 0 for never; the default is 5.',
      }),
    ),
    pause: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Milliseconds for which the open breaker refuses requests; the default is 10000.',
      }),
    ),
  },
  {
    ...closed,
    description: 'The circuit breaker, which refuses requests to a model that keeps failing. An understudy has none.',
  },
)
export type BreakerSettings = Static<typeof BreakerSettings>

const byName = <T extends TSchema>(schema: T, description: string) =>
  Type.Optional(Type.Record(Type.String({ minLength: 1 }), schema, { description }))

/** The parameters that callers may send, and changes of parameters, which are applied in this order, after the defaults. */
export const Params = Type.Object(
  {
    allow: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        uniqueItems: true,
        description:
          'Refused parameters that callers may send to this model, such as "chat_template" or "aws_*"; docs/models.md lists the refused parameters.',
      }),
    ),
    set: byName(Type.Unknown(), 'Parameters with fixed values, which replace those of the request.'),
    rename: byName(
      Type.String({ minLength: 1 }),
      'New names of parameters, such as {"max_tokens": "max_completion_tokens"}. A value that the request has under the new name stays.',
    ),
    cap: byName(Type.Number(), 'The highest values of parameters; higher values are lowered to them.'),
    drop: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        uniqueItems: true,
        description: 'Parameters that are not sent upstream; x-ignored-params names those that the caller sent.',
      }),
    ),
  },
  {
    ...closed,
    description: 'Parameters that callers may send, then changes of parameters, in this order, after "defaults".',
  },
)
export type Params = Static<typeof Params>

const role = Type.Optional(Role)
/** The names that roles get for the upstream. */
export const Roles = Type.Object(
  { system: role, developer: role, user: role, assistant: role, tool: role, function: role },
  { ...closed, description: 'Other roles for messages, such as {"developer": "system"}.' },
)
export type Roles = Static<typeof Roles>

/** Settings of every adapter. */
const common = {
  timeouts: Type.Optional(Timeouts),
  retries: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 10,
      description:
        'How often a failed request is sent again, never after the caller has got the first byte. The default is 2, and 0 for an understudy.',
    }),
  ),
  breaker: Type.Optional(BreakerSettings),
  contextWindow: Type.Optional(
    Type.Integer({ minimum: 1, description: 'The tokens of the context window, the answer included.' }),
  ),
  defaults: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'Default values of request parameters, such as temperature.',
    }),
  ),
  params: Type.Optional(Params),
  input: Type.Optional(
    Type.Array(
      Type.Union([
        Type.Literal('text'),
        Type.Literal('image'),
        Type.Literal('audio'),
        Type.Literal('video'),
        Type.Literal('file'),
      ]),
      {
        minItems: 1,
        uniqueItems: true,
        description:
          'The kinds of input: ["text"] for a model without images, audio, video and files. The default is all kinds.',
      },
    ),
  ),
  privateUrls: Type.Optional(
    Type.Boolean({
      description:
        'Whether callers may send URLs of images, audio, video and files whose host is an IP address or a private name; the default is false.',
    }),
  ),
  mergeMessages: Type.Optional(
    Type.Boolean({
      description:
        'Whether adjacent messages of one role are joined, for chat templates that require alternating roles; the default is false.',
    }),
  ),
  roles: Type.Optional(Roles),
  overflow: Type.Optional(
    Type.Literal('drop-oldest', {
      description:
        'Leaves out the oldest messages if the context window is too small. Without this setting, such a request is refused.',
    }),
  ),
}

const apiKey = Type.Optional(
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is what the operator writes
  Type.String({ minLength: 1, description: 'Usually "${NAME}", read from the environment.' }),
)
const headers = Type.Optional(
  Type.Record(Type.String(), Type.String(), { description: 'Headers of every request to the upstream.' }),
)
const proxy = Type.Optional(
  Type.Boolean({ description: 'Whether requests go through HTTP_PROXY and HTTPS_PROXY; the default is true.' }),
)
const plainUrl = String.raw`^https?://[^\s?#]+`
const upstreamModel = Type.String({ minLength: 1, description: 'The id of the model at the upstream.' })

/** The understudy, the embedded stand-in for a model. `understudy/slow` and other variants misbehave on purpose. */
export const UnderstudySettings = Type.Object(
  // The union `AdapterSettings` needs this narrow type: the type `string` would match the adapters of the other members too.
  { adapter: Type.Unsafe<`understudy${string}`>(Type.String({ pattern: '^understudy(/[a-z0-9]+)?$' })), ...common },
  { ...closed, title: 'UnderstudySettings' },
)

export type UnderstudySettings = Static<typeof UnderstudySettings>

/**
 * Any OpenAI-compatible service. Without `model`, the upstream gets the model's name; for a prefix, it gets the rest of the id.
 */
export const OpenAiSettings = Type.Object(
  {
    adapter: Type.Literal('openai'),
    baseUrl: Type.String({
      pattern: String.raw`${plainUrl}(\?[^\s#]*)?$`,
      description:
        'The address of the upstream, such as https://api.openai.com/v1. A query goes behind the paths of requests.',
    }),
    apiKey,
    model: Type.Optional(upstreamModel),
    headers,
    streamUsage: Type.Optional(
      Type.Boolean({
        description:
          'Whether streams are asked for their usage; false for an upstream that refuses the option. The default is true.',
      }),
    ),
    proxy,
    ...common,
  },
  { ...closed, title: 'OpenAiSettings' },
)
export type OpenAiSettings = Static<typeof OpenAiSettings>

/** Weights in a GGUF file, run in this process by node-llama-cpp, which the operator installs. */
export const LlamaCppSettings = Type.Object(
  {
    adapter: Type.Literal('llama.cpp'),
    model: Type.String({
      minLength: 1,
      description:
        'The path of a GGUF file, or an http(s) address, from which the file is downloaded once. A relative path starts in the folder weights of the data folder.',
    }),
    sha256: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        description: 'The SHA-256 of the file: 64 hex digits in small letters.',
      }),
    ),
    queue: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 10_000,
        description: 'The maximum number of waiting requests; the default is 32.',
      }),
    ),
    gpu: Type.Optional(Type.Boolean({ description: 'Whether a GPU is used if there is one; the default is true.' })),
    proxy,
    ...common,
  },
  { ...closed, title: 'LlamaCppSettings' },
)
export type LlamaCppSettings = Static<typeof LlamaCppSettings>

/** An AI SDK provider by the name of its npm package. `options` are passed to the provider's factory unchanged. */
export const AiSdkSettings = Type.Object(
  {
    adapter: Type.String({ pattern: '^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$' }),
    model: upstreamModel,
    apiKey,
    baseUrl: Type.Optional(
      Type.String({
        pattern: `${plainUrl}$`,
        description: "The address of the provider; the default is the provider's own.",
      }),
    ),
    headers,
    proxy,
    options: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: "More options for the provider's factory." }),
    ),
    providerOptions: Type.Optional(
      Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), {
        description: "The provider's own options, sent with every call.",
      }),
    ),
    ...common,
  },
  { ...closed, title: 'AiSdkSettings' },
)
export type AiSdkSettings = Static<typeof AiSdkSettings>

/** A list of models to try in order. */
export const FallbackSettings = Type.Object(
  {
    fallback: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      uniqueItems: true,
      description: 'Names of models in this file, in the order of attempts.',
    }),
  },
  { ...closed, title: 'FallbackSettings' },
)
export type FallbackSettings = Static<typeof FallbackSettings>

/** Settings of a model with an adapter, with every `${NAME}` filled in. */
export type AdapterSettings = UnderstudySettings | OpenAiSettings | LlamaCppSettings | AiSdkSettings

/** The schema of a model's settings, by its `adapter`. */
export function settingsSchema(adapter: string): TObject {
  if (/^understudy(\/|$)/.test(adapter)) return UnderstudySettings
  if (adapter === 'openai') return OpenAiSettings
  return adapter === 'llama.cpp' ? LlamaCppSettings : AiSdkSettings
}
