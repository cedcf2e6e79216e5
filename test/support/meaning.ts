import { parseStream } from './chat.ts'

/** What a client understands of an answer, whatever the interface. */
export interface Meaning {
  readonly isSuccess: boolean
  readonly text: string
  /** Name and arguments of each call. */
  readonly calls: readonly string[]
  /** Whether the answer was cut by its maximum length. */
  readonly isCut: boolean
}

interface Piece {
  readonly index?: number
  readonly id?: string
  readonly function?: { readonly name?: string; readonly arguments?: string }
}
interface Said {
  readonly content?: unknown
  readonly tool_calls?: readonly Piece[]
}

const failed = { isSuccess: false, text: '', calls: [], isCut: false }

/** Reads the reply of chat, whole or streamed, as OpenAI's clients do: they join the pieces of calls by their index. */
export async function meaningOfChat(response: Response, isStream: boolean): Promise<Meaning> {
  const text = await response.text()
  if (response.status !== 200) return failed
  if (!isStream) {
    const { choices } = JSON.parse(text)
    const [{ message, finish_reason }] = choices
    return {
      isSuccess: true,
      ...joined([
        { ...message, tool_calls: (message.tool_calls ?? []).map((call: Piece) => ({ ...call, index: undefined })) },
      ]),
      isCut: finish_reason === 'length',
    }
  }
  const { chunks, errors, isDone } = parseStream(text)
  const choices = chunks.flatMap((chunk) => chunk.choices).filter(({ index }) => index === 0)
  const reason = choices.findLast((choice) => choice.finish_reason)?.finish_reason
  const isSuccess = errors.length === 0 && isDone
  return { isSuccess, ...joined(choices.map(({ delta }) => delta)), isCut: isSuccess && reason === 'length' }
}

function joined(said: readonly (Said | undefined)[]): Pick<Meaning, 'text' | 'calls'> {
  const calls = new Map<number, string[]>()
  for (const pieces of said.map((each) => each?.tool_calls ?? [])) {
    for (const [place, { index = place, function: called }] of pieces.entries()) {
      const [name = '', sent = ''] = calls.get(index) ?? []
      calls.set(index, [name + (called?.name ?? ''), sent + (called?.arguments ?? '')])
    }
  }
  const text = said.map((each) => (typeof each?.content === 'string' ? each.content : '')).join('')
  return { text, calls: [...calls.values()].map((call) => call.join(' ')) }
}

interface Item {
  readonly type: string
  readonly content?: readonly { readonly type: string; readonly text: string }[]
  readonly name?: string
  readonly arguments?: string
}

/** Reads the reply of `POST /responses`, whole or streamed. */
export async function meaningOfResponse(response: Response, isStream: boolean): Promise<Meaning> {
  const text = await response.text()
  if (response.status !== 200) return failed
  const last = isStream ? text.trimEnd().split('\n\n').at(-1)?.split('\ndata: ')[1] : `{"response":${text}}`
  const { status, output }: { status: string; output: readonly Item[] } = JSON.parse(last ?? '').response
  const texts = output.flatMap(({ content }) => content ?? []).filter(({ type }) => type === 'output_text')
  const calls = output.filter(({ type }) => type === 'function_call')
  return {
    isSuccess: status !== 'failed',
    text: texts.map((part) => part.text).join(''),
    calls: calls.map(({ name, arguments: sent }) => `${name} ${sent}`),
    isCut: status === 'incomplete',
  }
}
