import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { startTavern, type Tavern } from '../support/sillytavern/program.ts'

/*
 * SillyTavern, installed from npm into a temporary folder and started as a program, talks to Fern with its source "Custom
 * (OpenAI-compatible)". The trial sends the requests that SillyTavern's page sends. Needs the npm registry.
 */

let service: TestService
let tavern: Tavern

beforeAll(async () => {
  service = await startTestService()
  tavern = await startTavern()
})

afterAll(async () => {
  await tavern?.close()
  await service?.close()
})

const source = () => ({ chat_completion_source: 'custom', custom_url: `${service.url}/v1` })
const messages = [
  { role: 'system', content: "Write Assistant's next reply in a fictional chat between Assistant and User." },
  { role: 'system', content: '[Start a new Chat]' },
  { role: 'user', content: 'How do I know when to repot?' },
]

test('SillyTavern lists Fern as a model, and gets whole and streamed replies', async () => {
  const saved = await tavern.post('/api/secrets/write', { key: 'api_key_custom', value: service.key })
  expect(saved.status).toBe(200)

  const menu = await (await tavern.post('/api/backends/chat-completions/status', source())).json()
  const { data } = Value.Decode(Type.Object({ data: Type.Array(Type.Object({ id: Type.String() })) }), menu)
  const picked = data.find(({ id }) => id === 'character/Fern')
  if (!picked) throw new Error(`Fern is not among ${JSON.stringify(data)}`)

  const asked = { ...source(), model: picked.id, messages, temperature: 1, max_tokens: 300, n: 1, stop: [] }
  const generate = '/api/backends/chat-completions/generate'
  const whole = await readCompletion(await tavern.post(generate, { ...asked, stream: false }))
  expect(whole.choices[0]?.message.content).toMatch(/When water runs straight through/)

  const streamed = await readStream(await tavern.post(generate, { ...asked, stream: true }))
  expect(streamed.isDone).toBe(true)
  expect(textOfStream(streamed)).toBe(whole.choices[0]?.message.content)
})
