import { ApiError, invalidField } from '../errors.ts'
import { type Fields, field, textIn } from '../fields.ts'
import type { CompletionRequest } from './completion-request.ts'
import type { FunctionTool, ToolCall } from './tool-fields.ts'

/**
 * Checks the rule that the schema of tools cannot express: each tool has a property with the name of its type.
 * @throws ApiError 400 that names the field
 */
export function checkTools({ tools, tool_choice: choice }: Pick<CompletionRequest, 'tools' | 'tool_choice'>): void {
  for (const [index, tool] of (tools ?? []).entries()) checkKind(tool, `tools[${index}]`)
  if (typeof choice !== 'object' || choice === null) return
  checkKind(choice, 'tool_choice')
  if (choice.type !== 'allowed_tools') return
  for (const [index, tool] of choice.allowed_tools.tools.entries()) {
    checkKind(tool, `tool_choice.allowed_tools.tools[${index}]`)
  }
}

/** Checks that an object has a property with the name of its type. @throws ApiError 400 that names the property */
export function checkKind(thing: { readonly type: string }, at: string): void {
  if (field(thing, thing.type) !== undefined) return
  const param = `${at}.${thing.type}`
  throw new ApiError(400, 'missing_field', `The field "${param}" is missing. Send it.`, { param })
}

/** Whether a tool or a call is of a type of OpenAI's API. Only an upstream may know other types, such as `builtin_function`. */
export function isKnownKind({ type }: { readonly type: string }): boolean {
  return type === 'function' || type === 'custom'
}

/** The end of the sentence about another type. */
export const unknownKind = 'is not valid: send one of function, custom'

/** The name of the called tool, and its arguments or input as a text. A call of an unknown type may have neither. */
export function calledBy(call: ToolCall): { readonly name: string; readonly text: string } {
  const { function: called = {}, custom = {} }: { readonly function?: Fields; readonly custom?: Fields } = call
  if (call.type === 'custom') return { name: textIn(custom, 'name'), text: textIn(custom, 'input') }
  return { name: textIn(called, 'name'), text: textIn(called, 'arguments') }
}

/** The functions of a request that may be called, and its tool choice. */
export interface Functions {
  readonly functions: readonly FunctionTool[]
  /** An object names the function that must be called. */
  readonly choice: 'none' | 'auto' | 'required' | { readonly name: string } | undefined
  /** Whether the request has tools that are not functions. */
  readonly hasOthers: boolean
}

/**
 * The functions of a request, for models that have no other tools. `allowed_tools` restricts the functions.
 * @throws ApiError 400 if `tool_choice` names a custom tool
 */
export function functionsOf({ tools, tool_choice: choice }: CompletionRequest): Functions {
  const functions = (tools ?? []).filter((tool) => tool.type === 'function')
  const hasOthers = functions.length < (tools?.length ?? 0)
  if (choice == null) return { functions, choice: undefined, hasOthers }
  if (typeof choice === 'string') return { functions, choice, hasOthers }
  if (choice.type === 'function') return { functions, choice: { name: choice.function.name }, hasOthers }
  if (choice.type === 'custom') throw invalidField('tool_choice', 'names a custom tool, and this model calls functions')
  const { mode, tools: allowed } = choice.allowed_tools
  const names = new Set(allowed.map((tool) => (tool.type === 'function' ? tool.function.name : undefined)))
  return { functions: functions.filter((tool) => names.has(tool.function.name)), choice: mode, hasOthers }
}
