import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Clock } from '../../src/clock.ts'
import { readChatError, readCompletion, readStream } from '../support/chat.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { answers } from '../support/upstream-behaviours/answers.ts'
import type { Behaviour } from '../support/upstream-behaviours/behaviour.ts'
import { failures } from '../support/upstream-behaviours/failures.ts'
import { refusals } from '../support/upstream-behaviours/refusals.ts'

const behaviours = [...refusals, ...failures, ...answers]

/** A clock. Timers up to 8 s, such as pauses between retries, fire immediately; longer timers, such as timeouts, never fire. */
const hasty: Clock = {
  now: () => 0,
  setTimeout(callback, milliseconds) {
    let isOff = milliseconds > 8000
    const call = () => {
      if (!isOff) callback()
    }
    setImmediate(call)
    return {
      refresh: () => {},
      close: () => {
        isOff = true
      },
    }
  },
}

let upstream: ScriptedUpstream
let service: TestService

beforeAll(async () => {
  upstream = await startUpstream()
  const model = { adapter: 'openai', baseUrl: upstream.url }
  const models = behaviours.flatMap((_, row) => [
    // This model has no retries, so one counted failure opens its breaker.
    [`once-${row}`, { ...model, retries: 0, breaker: { failures: 1 } }] as const,
    [`other-${row}`, { ...model, retries: 0, breaker: { failures: 0 } }] as const,
    [`twice-${row}`, { ...model, retries: 1, breaker: { failures: 0 } }] as const,
    [`list-${row}`, { fallback: [`twice-${row}`, 'next'] }] as const,
  ])
  service = await startTestService(
    {},
    { next: { adapter: 'understudy' }, ...Object.fromEntries(models) },
    { clock: hasty },
  )
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

/** The measured results, by the number of the row. */
const results: Promise<Result>[] = []
const resultOf = (row: number, behaviour: Behaviour) => (results[row] ??= measured(row, behaviour))

describe('behaviours of upstreams, and their results', () => {
  test.each(behaviours.map((behaviour, row) => ({ ...behaviour, row })))(
    '$upstream, $version: $came',
    async ({ row, ...behaviour }) => {
      const { chat, stream, responses: _responses, ...others } = await resultOf(row, behaviour)
      const got = 'stream' in (behaviour.ask ?? {}) ? stream : chat
      expect({ ...others, got }).toEqual(expectedOf(behaviour))
    },
  )
})

test('docs/upstreams.md lists all behaviours with the results that are measured here', async () => {
  const rows: string[] = []
  for (const [row, behaviour] of behaviours.entries()) {
    const { upstream: name, version, source, came } = behaviour
    const { chat, stream, responses, ledger, asked, next, counted } = await resultOf(row, behaviour)
    const same = (got: string) => (got === chat ? 'as chat' : got)
    const cells = [
      ...[`[${name}](${source})`, version, came, chat, same(stream), same(responses), ledger, asked],
      ...[next ? 'yes' : 'no', counted ? 'yes' : 'no'],
    ]
    rows.push(`| ${cells.join(' | ')} |`)
  }
  await expect(`${introduction}\n${rows.join('\n')}\n`).toMatchFileSnapshot('../../docs/upstreams.md')
}, 120_000)

/** What the caller gets of chat, whole and streamed, and of the Responses API, in words; the other facts are those of chat. */
interface Result extends Omit<Outcome, 'got'> {
  readonly chat: string
  readonly stream: string
  readonly responses: string
}

type Outcome = Pick<Behaviour, 'got' | 'ledger' | 'asked' | 'next' | 'counted'>

function expectedOf({ got, ledger, asked, next, counted }: Behaviour): Outcome {
  return { got, ledger, asked, next, counted }
}

async function measured(row: number, { script, ask = {} }: Behaviour): Promise<Result> {
  const post = (model: string, more: object = ask) =>
    service.request('/chat/completions', { json: { model, messages: [{ role: 'user', content: 'Hello' }], ...more } })
  upstream.answer(script)
  const isStream = 'stream' in ask
  const response = await post(`once-${row}`)
  const got = await told(response, isStream)
  const record = await service.request(`/requests/${response.headers.get('x-request-id')}`)
  const ledger = recorded(JSON.parse(await record.text()))
  const metrics = await (await service.request('/metrics')).text()
  const counted = metrics.includes(`conservatory_breaker_state{gen_ai_request_model="once-${row}",state="open"} 1`)
  const { stream: _stream, stream_options: _options, messages, ...others }: Readonly<Record<string, unknown>> = ask
  const kept = { ...others, ...(messages ? { messages } : {}) }
  const other = await told(await post(`other-${row}`, isStream ? kept : { ...kept, stream: true }), !isStream)
  const json = { model: `other-${row}`, input: messages ?? 'Hello', ...others }
  const responses = await toldOfResponse(await service.request('/responses', { json }))
  upstream.calls.length = 0
  const list = await post(`list-${row}`)
  await list.text()
  const facts = { ledger, asked: upstream.calls.length, next: list.headers.get('x-model') === 'next', counted }
  return { chat: isStream ? other : got, stream: isStream ? got : other, responses, ...facts }
}

/** The result of a caller of the Responses API, in words. */
async function toldOfResponse(response: Response): Promise<string> {
  if (response.status !== 200) return told(response, false)
  const { status, usage }: { status: string; usage: { input_tokens: number; output_tokens: number } } = JSON.parse(
    await response.text(),
  )
  const header = response.headers.get('x-upstream-truncated')
  const more = header === null ? '' : `, \`x-upstream-truncated: ${header}\``
  return `${status === 'completed' ? 'an answer' : status}, usage ${usage.input_tokens}+${usage.output_tokens}${more}`
}

/** The caller's result, in words. */
async function told(response: Response, isStream: boolean): Promise<string> {
  if (response.status !== 200) {
    const { code, message } = await readChatError(response)
    return `${response.status} \`${code}\`: ${message}`
  }
  const header = response.headers.get('x-upstream-truncated')
  const more = header === null ? '' : `, \`x-upstream-truncated: ${header}\``
  if (!isStream) {
    const { usage } = await readCompletion(response)
    return `an answer, ${usage ? `usage ${usage.prompt_tokens}+${usage.completion_tokens}` : 'no usage'}${more}`
  }
  const { chunks, errors, comments, isDone } = await readStream(response)
  const [error] = errors
  if (error) {
    expect([errors.length, isDone]).toEqual([1, false])
    return `text, then the error event \`${error.error.code}\`: ${error.error.message}`
  }
  expect([isDone, chunks.find(({ choices }) => choices.length > 0)?.choices[0]?.delta.role]).toEqual([
    true,
    'assistant',
  ])
  const usages = chunks.filter(({ usage }) => usage)
  expect(usages.map(({ choices }) => choices)).toEqual(usages.map(() => []))
  const [used] = usages
  const usage = used?.usage
    ? `${usages.length} usage chunk ${used.usage.prompt_tokens}+${used.usage.completion_tokens}`
    : 'no usage chunk'
  return ['an answer', usage, ...comments.map((comment) => `\`${comment}\``)].join(', ')
}

/** The ledger's record, in words. */
function recorded(request: {
  readonly state: string
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly tokens_exact: boolean
  readonly upstream_truncated: string | null
}): string {
  const { state, prompt_tokens, completion_tokens, tokens_exact, upstream_truncated } = request
  const tokens = `${tokens_exact ? '' : 'about '}${prompt_tokens}+${completion_tokens}`
  const used = prompt_tokens + completion_tokens === 0 ? [] : [tokens]
  return [state, ...used, ...(upstream_truncated === null ? [] : [`cut ${upstream_truncated}`])].join(', ')
}

const introduction = `# What upstreams do

Services with OpenAI's interface differ in how they fail, how they count tokens, and how their streams begin and end. Each row is
one behaviour of one service. The name links to the documentation or the report that describes it. The other columns say:

- chat, stream and responses: what the caller gets of chat, whole and streamed, and of a whole response, with
  [headers](interfaces.md#headers);
- ledger: the state of the request, and the tokens of the prompt and of the answer; "about" marks an estimate, and "cut" the two counts of
  a prompt that the upstream has cut;
- asked: how often the service sends the request to a model with \`"retries": 1\`;
- next asked: whether the next model of a fallback list is asked;
- counted: whether the circuit breaker counts a failure.

\`test/chat/upstream.behaviours.test.ts\` measures each row and makes the table.

| upstream | version | what it sends | chat | stream | responses | ledger | asked | next asked | counted |
|---|---|---|---|---|---|---|---|---|---|`
