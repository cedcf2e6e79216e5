/** The parameters that only models read. Commands load this list without the schemas. */
const names = [
  ...(['stop', 'seed', 'temperature', 'top_p', 'presence_penalty', 'frequency_penalty', 'logprobs'] as const),
  ...(['top_logprobs', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format'] as const),
  ...(['reasoning_effort', 'user', 'metadata'] as const),
]
export type ModelParameter = (typeof names)[number]
const modelParameters: ReadonlySet<string> = new Set(names)

/** Whether only models read a parameter. */
export function isModelParameter(name: string): boolean {
  return modelParameters.has(name)
}
