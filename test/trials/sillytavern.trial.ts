import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { installPackages } from '../support/installed-packages.ts'
import { compileCache } from '../support/process.ts'
import { startTestService, type TestService } from '../support/service.ts'

/*
 * SillyTavern, installed from npm into a temporary folder and started as a program, talks to Fern: its source "Custom
 * (OpenAI-compatible)", asked as its own page asks it. Wants the npm registry.
 */

const version = 'sillytavern@1.19.0'

let folder: ReturnType<typeof installPackages>
let service: TestService
let tavern: Tavern

/** SillyTavern as its page sees it. */
interface Tavern {
  post(path: string, body: object): Promise<Response>
  close(): Promise<unknown>
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('there is no port')
  return address.port
}

async function startTavern(): Promise<Tavern> {
  const port = await freePort()
  const program = spawn(
    process.execPath,
    [
      join(folder.path, 'node_modules/sillytavern/server.js'),
      ...[
        '--port',
        String(port),
        '--dataRoot',
        join(folder.path, 'data'),
        '--configPath',
        join(folder.path, 'config.yaml'),
      ],
      ...['--listen', 'false', '--browserLaunchEnabled', 'false'],
    ],
    {
      cwd: join(folder.path, 'node_modules/sillytavern'),
      env: { ...process.env, ...compileCache },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const exited = once(program, 'exit')
  let printed = ''
  await new Promise<void>((resolve, reject) => {
    for (const stream of [program.stdout, program.stderr]) {
      stream.on('data', (text) => {
        printed += text
        if (/SillyTavern is listening/i.test(printed)) resolve()
      })
    }
    void exited.then(() => reject(new Error(printed)))
  })
  const address = `http://127.0.0.1:${port}`
  const page = await fetch(`${address}/csrf-token`)
  const { token } = Value.Decode(Type.Object({ token: Type.String() }), await page.json())
  const cookie = page.headers
    .getSetCookie()
    .map((each) => each.split(';')[0])
    .join('; ')
  const headers = { 'content-type': 'application/json', 'x-csrf-token': token, cookie }
  return {
    post: (path, body) => fetch(`${address}${path}`, { method: 'POST', headers, body: JSON.stringify(body) }),
    close: () => {
      program.kill()
      return exited
    },
  }
}

beforeAll(async () => {
  folder = installPackages([version])
  service = await startTestService()
  tavern = await startTavern()
})

afterAll(async () => {
  await tavern?.close()
  await service?.close()
  folder?.remove()
})

const source = () => ({ chat_completion_source: 'custom', custom_url: `${service.url}/v1` })
const messages = [
  { role: 'system', content: "Write Assistant's next reply in a fictional chat between Assistant and User." },
  { role: 'system', content: '[Start a new Chat]' },
  { role: 'user', content: 'How do I know when to repot?' },
]

test('its menu has Fern, who answers whole and streamed', async () => {
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
