import { createHash } from 'node:crypto'
import { ApiError, invalidField } from '../../errors.ts'
import { readJson } from '../../json.ts'
import { type Message, textOf } from '../../openai/completion-request.ts'
import type { FunctionCall } from '../../openai/tool-fields.ts'
import { beginningOf } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import { type CallableTool, type CallableTools, isToolResult, type SchemaText, shortened } from './reply-input.ts'
import { isObject, type Schema, SchemaTooLargeError } from './schema.ts'
import { type TextSource, valueFor } from './schema-value.ts'
import { createSearch, wordsOf } from './search.ts'

/** The most letters of a tool's name, of a description that is compared, and of a message in which names are looked for. */
const maxNameLength = 128
const maxDescriptionLength = 1000
const maxSearchedLength = 100_000
/** Units of work to look for one name, besides the letters of the message. */
const unitsOfName = 1000

/**
 * The tool to call: the tool that `tool_choice` names, or for `required` the best match for the question. By default the model
 * decides, as in OpenAI's API: if the user names a tool, the understudy calls it.
 * @param question the end of the user's last message
 * @throws ApiError 400 if `tool_choice` names a tool that is not a function in "tools", or requires a tool although "tools" has
 * no function
 */
export function toolToCall(
  { functions, choice = 'auto' }: CallableTools,
  messages: readonly Message[],
  question: string,
): CallableTool | undefined {
  if (choice === 'none') return undefined
  if (choice === 'auto') return namedTool(functions, messages)
  const tool =
    choice === 'required' ? bestMatch(functions, question) : functions.find(({ name }) => name === choice.name)
  if (tool) return tool
  const problem =
    choice === 'required'
      ? 'requires a tool, and "tools" has none. Send one, or leave "tool_choice" out'
      : `names the tool ${JSON.stringify(beginningOf(choice.name, maxNameLength))}, which is not in "tools". Send one of those`
  throw invalidField('tool_choice', problem)
}

/**
 * Makes a call of the tool, with arguments that fit the tool's schema. The same request gives the same call.
 * @param key the number of messages, the seed and the index of the choice
 */
export function callOf({ name, schema }: CallableTool, question: string, key: string): FunctionCall {
  const fields = schema ? fittingValue(schema, textsOf(question), { type: 'object' }) : {}
  return {
    id: `call_${createHash('sha256').update(`${key}/${question}/${name}`).digest('hex').slice(0, 24)}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(fields) },
  }
}

/**
 * Makes a value that fits a caller's schema.
 * @param defaults keywords for a schema without them
 * @throws ApiError 400 `too_complex` if even a small value would be too large
 */
export function fittingValue({ json, param }: SchemaText, texts: TextSource, defaults: Schema = {}): unknown {
  spend(json.length)
  // The reader of the body has bounded the depth.
  const schema = readJson(json, { depth: Infinity, duplicates: 'last', numbersRead: noFields })
  try {
    return valueFor(isObject(schema) ? { ...defaults, ...schema } : schema, texts)
  } catch (error) {
    if (!(error instanceof SchemaTooLargeError)) throw error
    const message = `The schema in "${param}" cannot be filled here: ${error.message}. Send a simpler one.`
    throw new ApiError(400, 'too_complex', message, { param, cause: error })
  }
}

const noFields: ReadonlySet<string> = new Set()

/** The texts for a value: first the texts in `first`, then each name in the question, then the start of the question. */
export function textsOf(question: string, ...first: readonly string[]): TextSource {
  const rest = shortened(question) || 'text'
  const texts = [...first, ...namesIn(question)]
  const asked = ` ${wordsOf(question).join(' ')} `
  return {
    next: () => texts.shift() ?? rest,
    mentions: (value) => asked.includes(` ${wordsOf(value).join(' ')} `),
  }
}

/** The tool whose name and description match the question best. If none matches, the first. */
function bestMatch(tools: readonly CallableTool[], question: string): CallableTool | undefined {
  const searched = tools.map(({ name, description }, id) => ({
    id,
    cue: name.replace(/[_-]|(?<=[a-z])(?=[A-Z])/g, ' '),
    text: description?.slice(0, maxDescriptionLength) ?? '',
  }))
  return tools[createSearch(searched)(question)[0]?.passage.id ?? 0]
}

/**
 * The tool whose whole name is in the user's last message. If there are several, the tool with the longest name. After a tool's
 * result no tool is called, because the reply reports the result.
 */
function namedTool(tools: readonly CallableTool[], messages: readonly Message[]): CallableTool | undefined {
  const last = messages.findLastIndex(({ role }) => role === 'user')
  const message = messages[last]
  if (!message || messages.slice(last).some(isToolResult)) return undefined
  const said = textOf(message).slice(-maxSearchedLength)
  let named: CallableTool | undefined
  for (const tool of tools) {
    spend(unitsOfName + said.length)
    if (tool.name.length > (named?.name.length ?? 0) && patternOf(tool.name).test(said)) named = tool
  }
  return named
}

/** A pattern of a tool's name, with blanks or underscores between its words. A name has only letters, digits, `_` and `-`. */
function patternOf(name: string): RegExp {
  const words = name.split(/_+/).filter((word) => word !== '')
  const pattern = words.length === 0 ? '(?!)' : words.join('[\\s_]+')
  return new RegExp(`(?<![\\p{L}\\p{M}\\p{N}])${pattern}(?![\\p{L}\\p{M}\\p{N}])`, 'iu')
}

/** Runs of capitalized words that do not begin a sentence. */
function namesIn(question: string): readonly string[] {
  return (
    question.match(/(?<![.!?]\s*|^\W*)(?<=\s["“'(]?)\p{Lu}[\p{L}\p{N}'’-]+(?: \p{Lu}[\p{L}\p{N}'’-]+)*/gu) ?? []
  ).slice(0, 20)
}
