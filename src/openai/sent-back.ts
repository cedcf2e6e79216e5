import { type Fields, fieldsIn, isFields, listIn } from '../fields.ts'

/**
 * Gives the assistant's messages of a request the form of OpenAI's API, before they are checked: clients send answers back as they
 * came, and some servers send calls without a type, arguments as an object, or an empty list of parts.
 * @param body the parsed body of a request
 */
export function mendAnswers(body: unknown): void {
  for (const message of listIn(isFields(body) ? body : {}, 'messages')) {
    if (!isFields(message) || message['role'] !== 'assistant') continue
    if (Array.isArray(message['content']) && message['content'].length === 0) set(message, 'content', null)
    for (const call of listIn(message, 'tool_calls')) if (isFields(call)) mendCall(call)
  }
}

function mendCall(call: Fields): void {
  const kind = isFields(call['custom']) && !isFields(call['function']) ? 'custom' : 'function'
  if (call['type'] == null && isFields(call[kind])) set(call, 'type', kind)
  const called = fieldsIn(call, 'function')
  const { arguments: given } = called
  if (typeof given !== 'string' && isFields(call['function']))
    set(called, 'arguments', given == null ? '' : JSON.stringify(given))
}

function set(fields: Fields, name: string, value: unknown): void {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}
