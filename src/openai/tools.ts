import { ApiError, invalidField } from '../errors.ts'
import type { CompletionRequest } from './completion-request.ts'
import type { FunctionTool, ToolCall } from './tool-fields.ts'

/**
 * Checks what the schema of tools cannot say: that each has the property that its type names.
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

/** Makes sure that something has the property that its type names. @throws ApiError 400 that names it */
export function checkKind(thing: { readonly type: string }, at: string): void {
  if (Reflect.get(thing, thing.type) !== undefined) return
  const param = `${at}.${thing.type}`
  throw new ApiError(400, 'missing_field', `The field "${param}" is missing. Send it.`, { param })
}

/** What is called, and with what, whichever kind of tool it is. */
export function calledBy(call: ToolCall): { readonly name: string; readonly text: string } {
  if (call.type === 'custom') return { name: call.custom.name, text: call.custom.input }
  return { name: call.function.name, text: call.function.arguments }
}

/** The functions of a request that may be called, and whether one must be. */
export interface Functions {
  readonly functions: readonly FunctionTool[]
  /** A name is that of the function which must be called. */
  readonly choice: 'none' | 'auto' | 'required' | { readonly name: string } | undefined
  /** Whether there are tools besides, which are no functions. */
  readonly hasOthers: boolean
}

/**
 * The functions of a request, for models that know nothing else: `allowed_tools` leaves the others out.
 * @throws ApiError 400 where a custom tool must be called
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
