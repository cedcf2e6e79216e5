import { randomUUID } from 'node:crypto'
import type { Completion } from '../openai/completion.ts'
import type { Call, OutputItem, OutputMessage, Reasoning } from '../openai/response.ts'
import { type MessageParts, maxResponseLength, readMessageParts, tooLongAnswer } from './message-parts.ts'
import { sealed } from './signatures.ts'

/** A unique id like OpenAI's, with the kind of the object as its prefix. */
export function idOf(kind: 'resp' | 'msg' | 'fc' | 'ctc' | 'rs'): string {
  return `${kind}_${randomUUID().replaceAll('-', '')}`
}

/** A message without content. */
export function emptyMessage(): OutputMessage {
  return { type: 'message', id: idOf('msg'), status: 'in_progress', role: 'assistant', content: [] }
}

/** A tool call without arguments. @param callId the id that the result of the call will name */
export function emptyCall(type: Call['type'], callId: string, name: string): Call {
  const call = { status: 'in_progress' as const, call_id: callId, name }
  if (type === 'custom_tool_call') return { type, id: idOf('ctc'), ...call, input: '' }
  return { type, id: idOf('fc'), ...call, arguments: '' }
}

/** Sets the arguments of a call. */
export function setArguments(call: Call, text: string): void {
  if (call.type === 'custom_tool_call') call.input = text
  else call.arguments = text
}

/** A reasoning item without text. */
export function emptyReasoning(): Reasoning {
  return { type: 'reasoning', id: idOf('rs'), status: 'in_progress', summary: [], content: [] }
}

/** The output items of a whole completion. @throws ApiError 502 for more than `maxResponseLength` characters */
export function outputOf({ choices }: Completion): readonly OutputItem[] {
  const [choice] = choices
  if (!choice) return []
  const parts = readMessageParts(choice.message)
  const { thought, text, refusal, calls } = parts
  const lengths = [thought, text, refusal, ...calls.map((call) => call.text)].map(({ length }) => length)
  if (lengths.reduce((sum, length) => sum + length, 0) > maxResponseLength) throw tooLongAnswer()
  const status = cutReason(choice.finish_reason) ? 'incomplete' : 'completed'
  const output: OutputItem[] = [...reasoningOf(parts)]
  const content = [
    ...(text === '' ? [] : [textPart(text)]),
    ...(refusal === '' ? [] : [{ type: 'refusal' as const, refusal }]),
  ]
  if (content.length > 0 || calls.length === 0) {
    output.push({ ...emptyMessage(), status, content: content.length > 0 ? content : [textPart('')] })
  }
  for (const { kind, id, name, text: argument, index } of calls) {
    const call = emptyCall(kind, id || `call_${index}`, name)
    setArguments(call, argument)
    output.push({ ...call, status })
  }
  return output
}

/** The reasoning item of a message, with the provider's signatures; none if it has neither. */
function reasoningOf({ thought, calls, extra }: MessageParts): readonly Reasoning[] {
  const signed = calls.flatMap(({ id, index, extra }) => (extra ? [[id || `call_${index}`, extra] as const] : []))
  const encrypted_content = sealed({ ...(extra && { message: extra }), calls: Object.fromEntries(signed) })
  if (thought === '' && encrypted_content === undefined) return []
  const content = thought === '' ? [] : [{ type: 'reasoning_text' as const, text: thought }]
  return [{ ...emptyReasoning(), status: 'completed', content, ...(encrypted_content && { encrypted_content }) }]
}

/** A text part of a message. */
export function textPart(text: string): Extract<OutputMessage['content'][number], { type: 'output_text' }> {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}

/** The reason why a response is incomplete, from the finish reason of its choice; null if the response is complete. */
export function cutReason(reason: string | null | undefined): 'max_output_tokens' | 'content_filter' | null {
  if (reason === 'length') return 'max_output_tokens'
  return reason === 'content_filter' ? 'content_filter' : null
}
