/*
 * What the APIs of Anthropic and Google refuse with a 400: the rules that their documents and their answers name. Each function
 * returns the faults of a request's body.
 */

type Fields = Record<string, unknown>

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null
const listOf = (value: unknown): Fields[] => (Array.isArray(value) ? value.filter(isFields) : [])

/** The faults of a request to Anthropic's Messages API. */
export function claudeFaults(body: Fields): string[] {
  const messages = listOf(body['messages'])
  const faults = [...textFaults(body, messages), ...callFaults(messages), ...thinkingFaults(body, messages)]
  const names = listOf(body['tools']).map(({ name }) => String(name))
  if (new Set(names).size < names.length) faults.push('tools: Tool names must be unique.')
  if (names.some((name) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name))) faults.push('tools: String should match pattern')
  const hasCalls = messages.some(({ content }) => listOf(content).some(({ type }) => type === 'tool_use'))
  if (hasCalls && names.length === 0) faults.push('Requests which include `tool_use` blocks must define tools')
  if (body['tool_choice'] !== undefined && names.length === 0) faults.push('tool_choice needs tools')
  const stops = Array.isArray(body['stop_sequences']) ? body['stop_sequences'] : []
  if (stops.some((stop) => String(stop).trim() === '')) faults.push('each stop sequence must contain non-whitespace')
  return faults
}

function textFaults(body: Fields, messages: readonly Fields[]): string[] {
  const faults: string[] = []
  const results = messages.flatMap(({ content }) => listOf(content)).flatMap(({ content }) => listOf(content))
  const blocks = [...listOf(body['system']), ...messages.flatMap(({ content }) => listOf(content)), ...results]
  if (blocks.some(({ type, text }) => type === 'text' && String(text).trim() === '')) {
    faults.push('text content blocks must contain non-whitespace text')
  }
  if (messages.some(({ content }) => Array.isArray(content) && content.length === 0)) faults.push('empty content')
  const last = messages.at(-1)
  const end = listOf(last?.['content']).at(-1)
  if (last?.['role'] === 'assistant' && /\s$/.test(String(end?.['text'] ?? ''))) {
    faults.push('final assistant content cannot end with trailing whitespace')
  }
  if (messages[0]?.['role'] !== 'user') faults.push('first message must use the "user" role')
  const roles = messages.map(({ role }) => role)
  if (roles.some((role, index) => role === roles[index + 1])) faults.push('roles must alternate')
  return faults
}

function callFaults(messages: readonly Fields[]): string[] {
  const faults: string[] = []
  const seen = new Set<unknown>()
  for (const [index, { role, content }] of messages.entries()) {
    const blocks = listOf(content)
    const ids = blocks.flatMap(({ type, id }) => (type === 'tool_use' ? [id] : []))
    const next = listOf(messages[index + 1]?.['content'])
    const results = next.flatMap(({ type, tool_use_id: id }) => (type === 'tool_result' ? [id] : []))
    if (ids.some((id) => !/^[a-zA-Z0-9_-]+$/.test(String(id)))) faults.push('tool_use.id: String should match pattern')
    if (ids.some((id) => seen.has(id)) || new Set(ids).size < ids.length) faults.push('`tool_use` ids must be unique')
    for (const id of ids) seen.add(id)
    if (ids.some((id) => !results.includes(id))) faults.push('`tool_use` without `tool_result` immediately after')
    if (results.some((id) => !ids.includes(id))) faults.push('unexpected `tool_use_id` in `tool_result` blocks')
    if (new Set(results).size < results.length) faults.push('each tool_use must have a single result')
    const firstOther = next.findIndex(({ type }) => type !== 'tool_result')
    const lastResult = next.findLastIndex(({ type }) => type === 'tool_result')
    if (firstOther !== -1 && firstOther < lastResult) faults.push('tool_result blocks must come first')
    if (role === 'assistant' && blocks.some(({ type }) => type === 'image'))
      faults.push('assistant messages have no images')
  }
  return faults
}

function thinkingFaults(body: Fields, messages: readonly Fields[]): string[] {
  const type = isFields(body['thinking']) ? body['thinking']['type'] : undefined
  if (type === undefined || type === 'disabled') return []
  const turn = messages.findLastIndex(({ role }) => role === 'assistant')
  const blocks = listOf(messages[turn]?.['content'])
  const mustBegin = turn === messages.length - 1 || blocks.some((block) => block['type'] === 'tool_use')
  const isSigned = ['thinking', 'redacted_thinking'].includes(String(blocks[0]?.['type']))
  return turn !== -1 && mustBegin && !isSigned ? ['Expected `thinking` or `redacted_thinking`'] : []
}

/** The faults of a request to Google's Gemini API. */
export function geminiFaults(body: Fields): string[] {
  const faults: string[] = []
  const contents = listOf(body['contents'])
  const generation = isFields(body['generationConfig']) ? body['generationConfig'] : {}
  const stops = Array.isArray(generation['stopSequences']) ? generation['stopSequences'] : []
  if (stops.length > 5) faults.push('stop_sequences: the maximum is 5')
  const declared = listOf(body['tools']).flatMap((tool) => listOf(tool['functionDeclarations']))
  const named = contents
    .flatMap(({ parts }) => listOf(parts))
    .flatMap((part) => {
      const called = part['functionCall'] ?? part['functionResponse']
      return isFields(called) ? [called] : []
    })
  if ([...declared, ...named].some(({ name }) => !/^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/.test(String(name)))) {
    faults.push('Invalid function name')
  }
  for (const [index, { parts }] of contents.entries()) {
    const calls = listOf(parts).filter((part) => part['functionCall']).length
    const results = listOf(contents[index + 1]?.['parts']).filter((part) => part['functionResponse']).length
    if (calls !== results) faults.push('the number of function response parts must equal that of function call parts')
    if (listOf(parts).length === 0) faults.push('contents.parts must not be empty')
    const isBlank = (part: Fields) => part['text'] === '' && part['thoughtSignature'] === undefined
    if (listOf(parts).some(isBlank)) faults.push('empty text parameter')
  }
  return faults
}
