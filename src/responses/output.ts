import { randomUUID } from 'node:crypto'
import { field } from '../fields.ts'
import type { Completion } from '../openai/completion.ts'
import type { FunctionCall, OutputItem, OutputMessage, Reasoning } from '../openai/response.ts'

/** An id as OpenAI's look: what it is of, and what makes it the only one. */
export function idOf(kind: 'resp' | 'msg' | 'fc' | 'rs'): string {
  return `${kind}_${randomUUID().replaceAll('-', '')}`
}

/** A message that has said nothing yet. */
export function emptyMessage(): OutputMessage {
  return { type: 'message', id: idOf('msg'), status: 'in_progress', role: 'assistant', content: [] }
}

/** A call that has no arguments yet. @param callId what its result will name it by */
export function emptyCall(callId: string, name: string): FunctionCall {
  return { type: 'function_call', id: idOf('fc'), status: 'in_progress', call_id: callId, name, arguments: '' }
}

/** A thought that is still to come. */
export function emptyReasoning(): Reasoning {
  return { type: 'reasoning', id: idOf('rs'), status: 'in_progress', summary: [], content: [] }
}

/** What upstreams call the text that a model thinks aloud: DeepSeek's and vLLM's name, and OpenRouter's. */
const thoughtFields = ['reasoning_content', 'reasoning']

/** What a message, or a piece of one, has of what its model thinks aloud. */
export function thoughtOf(said: object | null | undefined): string {
  for (const name of thoughtFields) {
    const thought = said && field(said, name)
    if (typeof thought === 'string' && thought !== '') return thought
  }
  return ''
}

/** What a whole completion puts out. */
export function outputOf({ choices }: Completion): readonly OutputItem[] {
  const [choice] = choices
  if (!choice) return []
  const { message, finish_reason: reason } = choice
  const status = isCut(reason) ? 'incomplete' : 'completed'
  const output: OutputItem[] = []
  const thought = thoughtOf(message)
  if (thought !== '') {
    output.push({ ...emptyReasoning(), status: 'completed', content: [{ type: 'reasoning_text', text: thought }] })
  }
  const content = [
    ...(message.content ? [textPart(message.content)] : []),
    ...(message.refusal ? [{ type: 'refusal' as const, refusal: message.refusal }] : []),
  ]
  const calls = message.tool_calls ?? []
  if (content.length > 0 || calls.length === 0) {
    output.push({ ...emptyMessage(), status, content: content.length > 0 ? content : [textPart('')] })
  }
  for (const { id, function: call } of calls) {
    output.push({ ...emptyCall(id, call.name), status, arguments: call.arguments })
  }
  return output
}

/** A part of a message that is text. */
export function textPart(text: string): Extract<OutputMessage['content'][number], { type: 'output_text' }> {
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}

/** Whether a choice ended before it was complete. */
export function isCut(reason: string | null | undefined): boolean {
  return cutReason(reason) !== null
}

/** Why a response is incomplete, by why its choice ended; null where it is not. */
export function cutReason(reason: string | null | undefined): 'max_output_tokens' | 'content_filter' | null {
  if (reason === 'length') return 'max_output_tokens'
  return reason === 'content_filter' ? 'content_filter' : null
}
