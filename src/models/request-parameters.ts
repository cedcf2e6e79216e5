import { field } from '../fields.ts'
import { type CompletionRequest, ownFields } from '../openai/completion-request.ts'
import type { Params } from './configuration/settings.ts'

/** What a model's settings say of the parameters of requests. */
interface ParameterSettings {
  readonly defaults?: Readonly<Record<string, unknown>>
  readonly params?: Params
}

/** A request with the parameters that its model is to get. */
interface Fitted<T> {
  readonly body: T
  /** The names, as they were sent, of parameters that were left out. */
  readonly dropped: readonly string[]
}

/** What bounds a reply. */
export type ReplyBounds = Pick<CompletionRequest, 'max_completion_tokens' | 'max_tokens' | 'n'>

/** Whether a parameter is only ours: it is read from the defaults before anybody is asked, and goes to no upstream. */
function isOwn(name: string): boolean {
  return ownFields.some((own) => own === name)
}

type Entries = readonly (readonly [name: string, value: unknown])[]

/**
 * Gives a request the parameters that its model is to get: the operator's defaults for what was not sent (null is as good
 * as that), then what is set, renamed, capped and dropped, in this order.
 */
export function fitParameters<T extends object>(sent: T, { defaults, params }: ParameterSettings): Fitted<T> {
  const filled = defaults ? withDefaults(sent, defaults) : sent
  if (!params) return { body: filled, dropped: [] }
  const { set = {}, rename = {}, cap = {}, drop = [] } = params
  const renamed = withNewNames({ ...filled, ...set }, Object.entries(rename))
  const capped = { ...renamed.body, ...Object.fromEntries(tooHigh(renamed.body, Object.entries(cap))) }
  const left = drop.filter((name) => field(capped, name) != null)
  const sentNames = (name: string) => [
    ...Object.entries(rename).flatMap(([from, to]) => (to === name ? [from] : [])),
    ...(Object.hasOwn(rename, name) ? [] : [name]),
  ]
  const names = new Set([...renamed.dropped, ...left.flatMap(sentNames)])
  return { body: without(capped, drop), dropped: [...names].filter((name) => field(sent, name) != null) }
}

function withDefaults<T extends object>(sent: T, defaults: Readonly<Record<string, unknown>>): T {
  const missing = Object.entries(defaults).filter(([name]) => field(sent, name) == null && !isOwn(name))
  return missing.length === 0 ? sent : { ...sent, ...Object.fromEntries(missing) }
}

/**
 * What bounds the reply to a fitted request, under the names that requests have for it: limits hold it, and the context
 * has room for it, also where the upstream has another name.
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

/** Gives values their new names, all at once; one that is there by its new name already stays, and the other is left out. */
function withNewNames<T extends object>(body: T, renames: readonly (readonly [string, string])[]): Fitted<T> {
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
 * The caps that are exceeded; a number that is sent as a text counts, since upstreams take it for the number. Of a number of
 * tokens -1 is none at all, which is more than any.
 */
function tooHigh(body: object, caps: readonly (readonly [string, number])[]): Entries {
  return caps.filter(([name, most]) => {
    const value = numberIn(field(body, name))
    return value > most || (value === -1 && /^max_.*tokens$/.test(name))
  })
}

/** The number that a value is, or says; NaN for any other value. */
function numberIn(value: unknown): number {
  if (typeof value === 'number') return value
  return typeof value === 'string' && value.trim() !== '' ? Number(value.replaceAll('_', '')) : Number.NaN
}

function without<T extends object>(body: T, names: readonly string[]): T {
  if (names.length === 0) return body
  const rest = { ...body }
  for (const name of names) Reflect.deleteProperty(rest, name)
  return rest
}
