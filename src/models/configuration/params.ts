import { Value } from '@sinclair/typebox/value'
import { isFields } from '../../fields.ts'
import { CompletionRequest, OwnFields } from '../../openai/completion-request.ts'
import { choiceOf, removedParameters } from '../../openai/refused-parameters.ts'

/** A fault in a model's `params`. */
interface Problem {
  /** The path in `params`, such as `rename.max_tokens`. */
  readonly place: string
  /** What is wrong, as the end of a sentence. */
  readonly problem: string
}

/** Parameters that `params` must not change: with a changed value, the service would misread the answer. */
const unchangeable = ['model', 'messages', 'stream']
const own = Object.keys(OwnFields.properties)

/** The two names for the maximum tokens of a reply. The service reads both names. */
const bounds = ['max_tokens', 'max_completion_tokens']

/** Other parameters that the service reads. A parameter must not be renamed to one of them, because its value was not checked. */
const readByService = ['n', 'stop', 'stream_options', 'tools', 'tool_choice', 'response_format']

/** Whether the service reads a parameter. Then the value of the parameter must be valid. */
export function isReadByService(name: string): boolean {
  return bounds.includes(name) || readByService.includes(name)
}

/**
 * The faults of a model's `params` that the schema cannot find.
 * @param params any value, because the schema reports a wrong shape
 */
export function paramsProblems(params: unknown): readonly Problem[] {
  if (!isFields(params)) return []
  const { allow, set, rename, cap, drop } = params
  const renames = isFields(rename) ? Object.entries(rename) : []
  const targets = renames.map(([, to]) => to)
  const allowed: readonly unknown[] = Array.isArray(allow) ? allow : []
  return [
    ...allowed.flatMap((name, index) => problemsOf(`allow[${index}]`, problemOfAllowed(name))),
    ...valuesIn('set', set),
    ...renames.flatMap(([from, to]) => problemsOf(`rename.${from}`, problemOfRename(from, to, targets, allowed))),
    ...valuesIn('cap', cap),
    ...(Array.isArray(drop) ? drop : []).flatMap((name, index) => problemsOf(`drop[${index}]`, problemOfName(name))),
  ]
}

function problemsOf(place: string, problem: string | undefined): readonly Problem[] {
  return problem === undefined ? [] : [{ place, problem }]
}

/** The faults of `set` or `cap`: names that must not be changed, and values that the service could not read. */
function valuesIn(key: 'set' | 'cap', values: unknown): readonly Problem[] {
  if (!isFields(values)) return []
  return Object.entries(values).flatMap(([name, value]) => {
    const place = `${key}.${name}`
    const problem = problemOfName(name)
    if (problem !== undefined) return [{ place, problem }]
    // The schema reports a cap that is not a number.
    const isChecked = isReadByService(name) && (key === 'set' || typeof value === 'number')
    const fits = !isChecked || (fitsRequest(name, value) && (key === 'set' || Number(value) > 0))
    return problemsOf(place, fits ? undefined : 'is not a valid value of this parameter')
  })
}

/** Whether a value is valid for a parameter of completions. For an unknown parameter, any value is valid. */
export function fitsRequest(name: string, value: unknown): boolean {
  const schema = Object.entries(CompletionRequest.properties).find(([each]) => each === name)?.[1]
  return schema === undefined || Value.Check(schema, value)
}

function problemOfRename(
  from: string,
  to: unknown,
  targets: readonly unknown[],
  allowed: readonly unknown[],
): string | undefined {
  const problem = problemOfName(from) ?? problemOfName(to)
  if (problem !== undefined || typeof to !== 'string') return problem
  if (from === 'n') return 'names n, by which the service knows the number of choices in an answer'
  if (from === to) return 'is its present name'
  if (targets.indexOf(to) !== targets.lastIndexOf(to)) return `becomes ${to}, and so does another parameter`
  if (removedParameters.includes(to)) return `cannot become ${to}, with which callers could redirect requests`
  const choice = allowed.includes(to) ? undefined : choiceOf(to)
  if (choice !== undefined) return `cannot become ${to}, with which callers could choose ${choice}`
  const isUnchecked = readByService.includes(to) || (bounds.includes(to) && !bounds.includes(from))
  return isUnchecked ? `cannot become ${to}, which the service reads itself` : undefined
}

function problemOfAllowed(name: unknown): string | undefined {
  const isRemoved = removedParameters.some((removed) => removed === name)
  return isRemoved ? `names ${name}, which no upstream gets from a caller; use "set"` : undefined
}

function problemOfName(name: unknown): string | undefined {
  if (typeof name !== 'string') return undefined
  if (unchangeable.includes(name)) return `names ${name}, which the service needs unchanged`
  return own.includes(name) ? `names ${name}, which is never sent upstream` : undefined
}
