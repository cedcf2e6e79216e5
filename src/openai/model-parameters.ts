/** The parameters that only models read. Commands load this list without the schemas. */
const modelParameterNames = [
  ...(['stop', 'seed', 'temperature', 'top_p', 'presence_penalty', 'frequency_penalty', 'logprobs'] as const),
  ...(['top_logprobs', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format'] as const),
  ...(['reasoning_effort', 'user', 'metadata'] as const),
]
export type ModelParameter = (typeof modelParameterNames)[number]

/** Whether only models read a parameter. */
export function isModelParameter(name: string): boolean {
  return modelParameterNames.some((each) => each === name)
}
