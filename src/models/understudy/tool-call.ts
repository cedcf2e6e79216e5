import { hashOf } from '../../characters/macros/seeded-random.ts'
import { ApiError, invalidField } from '../../errors.ts'
import { readJson } from '../../json.ts'
import { type Message, textOf } from '../../openai/completion-request.ts'
import type { FunctionCall } from '../../openai/tool-fields.ts'
import type { Functions } from '../../openai/tools.ts'
import { beginningOf } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import { isToolResult } from './conversation.ts'
import { isObject, type Json, type Schema, SchemaTooLargeError } from './schema.ts'
import { type TextSource, valueFor } from './schema-value.ts'
import { fold, shortened, termsOf, wordsOf } from './words.ts'

/** A function that may be called. */
export interface CallableTool {
  readonly name: string
  readonly description?: string | null | undefined
  /** The schema of the arguments. */
  readonly schema?: SchemaText | undefined
}

/** A schema of a request as plain data: its numbers stay as they were written. */
export interface SchemaText {
  readonly json: string
  /** The field with the schema. */
  readonly param: string
}

/** The tools of a request. */
export interface CallableTools {
  readonly functions: readonly CallableTool[]
  readonly choice: Functions['choice']
}

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
      : `names the tool ${JSON.stringify(beginningOf(choice.name, maxShownLength))}, which is not in "tools". Send one of those`
  throw invalidField('tool_choice', problem)
}

/** The most characters of a wrong name in the error. The name of a tool is not longer. */
const maxShownLength = 128

/**
 * Makes a call of the tool, with arguments that fit the tool's schema. The same request gives the same call.
 * @param key the number of messages, the seed and the index of the choice
 */
export function callOf({ name, schema }: CallableTool, question: string, key: string): FunctionCall {
  const fields = schema ? fittingValue(schema, textsOf(question), { type: 'object' }) : {}
  const seed = `${key}/${question}/${name}`
  return {
    id: `call_${hex(seed)}${hex(`2/${seed}`)}${hex(`3/${seed}`)}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(fields) },
  }
}

/**
 * Makes a value that fits a caller's schema.
 * @param defaults keywords for a schema without them
 * @throws ApiError 400 `too_complex` if even a small value would be too large
 */
export function fittingValue({ json, param }: SchemaText, texts: TextSource, defaults: Schema = {}): Json {
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
  const folded = ` ${foldedWords(question)} `
  return {
    next: () => texts.shift() ?? rest,
    mentions: (value) => folded.includes(` ${foldedWords(value)} `),
  }
}

/** The tool whose name and description share the most words with the question. If several tools are equally good, the first. */
function bestMatch(tools: readonly CallableTool[], question: string): CallableTool | undefined {
  const asked = new Set(wordsOf(question).flatMap(termsOf))
  const common = ({ name, description }: CallableTool) => {
    const words = `${name.replace(/[_-]|(?<=[a-z])(?=[A-Z])/g, ' ')} ${description?.slice(0, 1000) ?? ''}`
    return new Set(
      wordsOf(words)
        .flatMap(termsOf)
        .filter((term) => asked.has(term)),
    ).size
  }
  let best: CallableTool | undefined
  let most = -1
  for (const tool of tools) {
    const count = common(tool)
    spend(unitsOfTool)
    if (count <= most) continue
    best = tool
    most = count
  }
  return best
}

/**
 * The tool whose whole name is in the user's last message. If there are several, the tool with the longest name. After a tool's
 * result no tool is called, because the reply reports the result.
 */
function namedTool(tools: readonly CallableTool[], messages: readonly Message[]): CallableTool | undefined {
  const last = messages.findLastIndex(({ role }) => role === 'user')
  const message = messages[last]
  if (tools.length === 0 || !message || messages.slice(last).some(isToolResult)) return undefined
  const said = ` ${spaced(textOf(message).slice(-maxSearchedLength))} `
  let named: CallableTool | undefined
  let longest = ''
  for (const tool of tools) {
    const name = spaced(tool.name)
    spend(1 + (said.length >> 4))
    if (name.length <= longest.length || !said.includes(` ${name} `)) continue
    named = tool
    longest = name
  }
  return named
}

/** Characters at the end of a message that are searched for names of tools. */
const maxSearchedLength = 100_000
/** Units of work for each letter that is read. */
const unitsOfSpacing = 6

/** Parts of a text. A part ends after a blank, if there is one, so that no word is split. */
const parts = /.{1,1000}(?<=\s|$)|.{1,1000}/gsu

/**
 * The words of a text in lower case. If only blanks and underscores separate two words, a blank is written between them,
 * otherwise a bar.
 */
function spaced(text: string): string {
  let folded = ''
  for (const part of text.match(parts) ?? []) {
    const letters = fold(part)
    spend((part.length + letters.length) * unitsOfSpacing)
    folded += letters
  }
  return folded
    .replace(/[\s_]+/g, ' ')
    .replace(/ ?[^\p{L}\p{M}\p{N} ][^\p{L}\p{M}\p{N}]*/gu, ' | ')
    .trim()
}

/** Units of work to read the words of one tool. */
const unitsOfTool = 20_000

/** Runs of capitalized words that do not begin a sentence. */
function namesIn(question: string): readonly string[] {
  return (
    question.match(/(?<![.!?]\s*|^\W*)(?<=\s["“'(]?)\p{Lu}[\p{L}\p{N}'’-]+(?: \p{Lu}[\p{L}\p{N}'’-]+)*/gu) ?? []
  ).slice(0, 20)
}

function foldedWords(text: string): string {
  return (fold(text).match(/[\p{L}\p{N}]+/gu) ?? []).join(' ')
}

function hex(text: string): string {
  return hashOf(text).toString(16).padStart(8, '0')
}
