import { field, maxNumberLength } from '../fields.ts'
import { checkBody } from '../http/validation.ts'
import { type CompletionRequest, ModelParameters, ownFields } from '../openai/completion-request.ts'
import { checkCallTypes } from '../openai/messages.ts'
import { isModelParameter } from '../openai/model-parameters.ts'
import { checkParameters } from '../openai/refused-parameters.ts'
import { checkTools } from '../openai/tools.ts'
import type { Params } from './configuration/settings.ts'

/** The settings of a model that change request parameters. */
interface ParameterSettings {
  readonly defaults?: Readonly<Record<string, unknown>>
  readonly params?: Params
  readonly relaysParameters?: boolean
}

/** A request with the parameters that its model gets. */
interface Fitted<T> {
  readonly body: T
  /** The parameters that were left out, by the names that the caller sent. */
  readonly dropped: readonly string[]
}

/** The parameters that bound a reply. */
export type ReplyBounds = Pick<CompletionRequest, 'max_completion_tokens' | 'max_tokens' | 'n'>

/** Whether a parameter is a field of this service. `resolve-persona.ts` applies its default, and no upstream gets the field. */
function isOwn(name: string): boolean {
  return ownFields.some((own) => own === name)
}

type Entries = readonly (readonly [name: string, value: unknown])[]

/**
 * Checks the parameters of a caller that a model would get. `set` replaces values of the caller, and `drop` removes them, except
 * parameters that have another name by then.
 * @throws ApiError 400 `refused_parameter`, or for a value that only an upstream with `relaysParameters` may take
 */
export function checkSentParameters(
  sent: CompletionRequest,
  { params, relaysParameters = false }: ParameterSettings,
  hasModelList: boolean,
): void {
  const { allow = [], set = {}, rename = {}, drop = [] } = params ?? {}
  const dropped = drop.filter((name) => !Object.hasOwn(rename, name))
  checkParameters(without(sent, [...Object.keys(set), ...dropped]), allow, hasModelList)
  if (!relaysParameters) checkModelParameters(sent)
}

/**
 * Checks the values of parameters that only models read, for a model that does not leave them to an upstream.
 * @throws ApiError 400 that names the field
 */
export function checkModelParameters(sent: CompletionRequest): void {
  checkCallTypes(sent.messages)
  if (!Object.keys(sent).some(isModelParameter)) return
  checkBody(ModelParameters, sent)
  checkTools(sent)
}

/**
 * Gives a request the parameters for its model: the operator's defaults for parameters that are absent or null, then `set`,
 * `rename`, `cap` and `drop`, in this order.
 */
export function fitParameters<T extends object>(sent: T, { defaults, params }: ParameterSettings): Fitted<T> {
  const filled = defaults ? withDefaults(sent, defaults) : sent
  if (!params) return { body: withoutEmptyTools(filled), dropped: [] }
  const { set = {}, rename = {}, cap = {}, drop = [] } = params
  const renamed = renameParameters({ ...filled, ...set }, Object.entries(rename))
  const capped = { ...renamed.body, ...Object.fromEntries(exceededCaps(renamed.body, Object.entries(cap))) }
  const left = drop.filter((name) => field(capped, name) != null)
  const sentNames = (name: string) => [
    ...Object.entries(rename).flatMap(([from, to]) => (to === name ? [from] : [])),
    ...(Object.hasOwn(rename, name) ? [] : [name]),
  ]
  const names = new Set([...renamed.dropped, ...left.flatMap(sentNames)])
  return {
    body: withoutEmptyTools(without(capped, drop)),
    dropped: [...names].filter((name) => field(sent, name) != null),
  }
}

/** The fields beside `tools` that have no effect without tools. OpenAI's API refuses an empty list of tools, and these fields too. */
const besideTools = ['tools', 'tool_choice', 'parallel_tool_calls']

/** A request without an empty list of tools. A `tool_choice` that requires a tool stays. */
function withoutEmptyTools<T extends object>(body: T): T {
  const tools = field(body, 'tools')
  if (!Array.isArray(tools) || tools.length > 0) return body
  const choice = field(body, 'tool_choice') ?? 'auto'
  return without(body, choice === 'auto' || choice === 'none' ? besideTools : ['tools'])
}

function withDefaults<T extends object>(sent: T, defaults: Readonly<Record<string, unknown>>): T {
  const missing = Object.entries(defaults).filter(([name]) => field(sent, name) == null && !isOwn(name))
  return missing.length === 0 ? sent : { ...sent, ...Object.fromEntries(missing) }
}

/**
 * The bounds of the reply to a fitted request, under OpenAI's names, because limits and the context window are checked with these
 * names. If `rename` has changed a name for the upstream, the value is read under the new name.
 */
export function replyBounds(body: CompletionRequest, { params }: ParameterSettings): ReplyBounds {
  const bound = (name: string): number | null => {
    const value = field(body, params?.rename?.[name] ?? name)
    return typeof value === 'number' ? value : null
  }
  return {
    max_completion_tokens: bound('max_completion_tokens'),
    max_tokens: bound('max_tokens'),
    ...(body.n === undefined ? {} : { n: body.n }),
  }
}

/**
 * Renames all parameters in one step. If the request already has a parameter with the new name, this parameter stays, and the
 * renamed one is left out.
 */
function renameParameters<T extends object>(body: T, renames: readonly (readonly [string, string])[]): Fitted<T> {
  const rest = without(
    body,
    renames.map(([from]) => from),
  )
  const moved = renames.filter(([from]) => field(body, from) != null)
  const [free, taken] = [
    moved.filter(([, to]) => field(rest, to) == null),
    moved.filter(([, to]) => field(rest, to) != null),
  ]
  const named = free.map(([from, to]) => [to, field(body, from)] as const)
  return { body: { ...rest, ...Object.fromEntries(named) }, dropped: taken.map(([from]) => from) }
}

/**
 * The caps that the request exceeds. A number in a text counts too, because some upstreams read the text as a number. A maximum
 * of -1 tokens means no bound, so it exceeds every cap.
 */
function exceededCaps(body: object, caps: readonly (readonly [string, number])[]): Entries {
  return caps.filter(([name, most]) => {
    const value = numberIn(field(body, name))
    return value > most || (value === -1 && /^max_.*tokens$/.test(name))
  })
}

/** The number in a value, or in its text; infinite for a text that is too long for a number; NaN for any other value. */
function numberIn(value: unknown): number {
  if (typeof value === 'number') return value
  if (JSON.isRawJSON(value)) return Number(JSON.stringify(value))
  if (typeof value === 'string' && value.length > maxNumberLength) return Number.POSITIVE_INFINITY
  return typeof value === 'string' && value.trim() !== '' ? Number(value.replaceAll('_', '')) : Number.NaN
}

function without<T extends object>(body: T, names: readonly string[]): T {
  if (names.length === 0) return body
  const rest = { ...body }
  for (const name of names) Reflect.deleteProperty(rest, name)
  return rest
}
