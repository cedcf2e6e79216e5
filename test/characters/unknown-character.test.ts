import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { serveForThisTest } from '../support/command.ts'
import { serviceForThisTest } from '../support/service.ts'

describe('an unknown or traversal-like character', () => {
  const secret = 'THE-SECRET-OF-THE-FILE'

  function names(dataDirectory: string): readonly string[] {
    return [
      'Nobody',
      'secret',
      'secret.json',
      '../secret.json',
      '../../secret',
      join(dataDirectory, 'secret.json'),
      `file://${dataDirectory}/secret.json`,
      '..%2fsecret.json',
      '..\\secret.json',
      'fern.json',
      'data/characters/fern.json',
      '/etc/passwd',
      '../../../../../../etc/passwd',
      '/etc/passwd\0.json',
      '.',
      '..',
      '__proto__',
      'constructor',
      'toString',
      "'; DROP TABLE accounts; --",
      'Fern/../Fern',
    ]
  }
  const ask = (character: string) => ({
    json: { model: 'understudy', character, messages: [{ role: 'user', content: 'Hello' }] },
  })

  test('always gets the same 404 with CHARACTERS=closed', async () => {
    const service = await serviceForThisTest({ CHARACTERS: 'closed' })
    writeFileSync(
      join(service.dataDirectory, 'secret.json'),
      JSON.stringify({ data: { name: 'secret', first_mes: secret } }),
    )
    for (const name of names(service.dataDirectory)) {
      const response = await service.request('/chat/completions', ask(name))
      expect([name, response.status, response.headers.get('x-character')]).toEqual([name, 404, null])
      expect(await response.json()).toEqual({
        error: {
          message: 'There is no character of this name here. Check the name.',
          type: 'invalid_request_error',
          param: 'character',
          code: 'character_not_found',
        },
      })
    }
  })

  test('is played by its name alone with CHARACTERS=open', async () => {
    const service = await serviceForThisTest()
    writeFileSync(
      join(service.dataDirectory, 'secret.json'),
      JSON.stringify({ data: { name: 'secret', first_mes: secret } }),
    )
    for (const name of names(service.dataDirectory)) {
      const response = await service.request('/chat/completions', ask(name))
      expect([name, response.status]).toEqual([name, 200])
      expect(response.headers.get('x-character')).toBe(encodeURIComponent(name))
      const text = await response.text()
      expect(text).not.toContain(secret)
      expect(text).not.toContain('root:')
    }
  })

  test('is a field of the log line, without its name', async () => {
    const { url, key, stdout, close } = await serveForThisTest({})
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    for (const [path, character] of [
      ['/chat/completions', 'Fern'],
      ['/chat/completions', 'Ferm'],
      ['/chat/prompt', 'Ferm'],
    ] as const) {
      const body = JSON.stringify(ask(character).json)
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
})
