import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { serveForThisTest } from '../support/command.ts'
import { temporaryFolder } from '../support/service.ts'
import { pieces, type Script, streamOf, upstreamForThisTest } from '../support/upstream.ts'

test('the log has one line for each client that left, and no failure', async () => {
  const upstream = await upstreamForThisTest()
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const models = { m: { adapter: 'openai', baseUrl: upstream.url, retries: 3 } }
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
  const service = await serveForThisTest({ DATA_DIR: folder.path })
  const leavings: readonly (readonly [stream: boolean, afterFirst: boolean, script: Script])[] = [
    [false, false, () => {}],
    [false, false, (response) => void response.writeHead(200).write('{"id":')],
    [true, false, () => {}],
    [true, true, pieces(streamOf('One two three').slice(0, 3), 'hang')],
  ]
  for (const [index, [stream, afterFirst, script]] of leavings.entries()) {
    upstream.answer(script)
    const leaving = new AbortController()
    const reply = fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: service.key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], stream }),
      signal: leaving.signal,
    })
    reply.catch(() => {})
    const call = await upstream.called(index + 1)
    if (afterFirst) await (await reply).body?.getReader().read()
    leaving.abort()
    await call.aborted
  }
  await service.close()
  // No request was retried.
  expect(upstream.calls).toHaveLength(leavings.length)
  const lines = service.stdout().trim().split('\n')
  const logged = lines.map((line): Record<string, unknown> => JSON.parse(line))
  expect(logged.filter(({ msg }) => msg === 'request').map(({ state }) => state)).toEqual(
    leavings.map(() => 'client_gone'),
  )
  expect(logged.filter(({ level }) => Number(level) >= 40)).toEqual([])
})
