import { expect, test } from 'vitest'
import { serveForThisTest } from '../support/command.ts'

test('an unknown character is a field of the log line, without its name', async () => {
  const { url, key, stdout, close } = await serveForThisTest({})
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  for (const [path, character] of [
    ['/chat/completions', 'Fern'],
    ['/chat/completions', 'Ferm'],
    ['/chat/prompt', 'Ferm'],
  ] as const) {
    const body = JSON.stringify({ model: 'understudy', character, messages: [{ role: 'user', content: 'Hello' }] })
    const reply = await fetch(url + path, { method: 'POST', headers, body })
    expect(reply.headers.get('x-character-unknown')).toBe(character === 'Fern' ? null : 'true')
    await reply.text()
  }
  await close()
  const lines = stdout()
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line))
  const requests = lines.filter(({ msg }) => msg === 'request')
  expect(requests.map((line) => line['character_unknown'])).toStrictEqual([undefined, true, true])
  expect(stdout()).not.toContain('Ferm')
})
