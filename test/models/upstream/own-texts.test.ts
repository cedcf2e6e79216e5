import { expect, test } from 'vitest'
import { refusalFrom } from '../../../src/models/upstream/errors.ts'
import { ownTextsOf, withoutOwnTexts } from '../../../src/models/upstream/own-texts.ts'

const key = `sk-${'abcdefghi1'.repeat(4)}`
const own = ownTextsOf({
  baseUrl: 'http://vllm.garden.example:8000/v1?api-version=2024-10-21&code=a-code-of-azure',
  apiKey: 'garden key of Ann',
  headers: { authorization: 'Bearer moss-and-fern', 'x-title': 'Conservatory', 'anthropic-beta': 'caching-2024-07-31' },
})

test.each([
  ['a key of the settings', 'The garden key of Ann failed.', 'The … failed.'],
  ['a key without the word before it', 'No moss-and-fern here.', 'No … here.'],
  ['a key of the address', 'Wrong code: a-code-of-azure!', 'Wrong code: …!'],
  ['the address', 'POST http://vllm.garden.example:8000/v1/chat failed.', 'POST … failed.'],
  ['the host', 'vllm.garden.example:8000 is down, vllm.garden.example too', '… is down, … too'],
  ['a private address', 'See http://10.1.2.3/v1, 192.168.7.8:80 and localhost:11434', 'See …, … and …'],
  ['a name in an address', 'At https://ann:rose@public.example/a.', 'At ….'],
  ['a key in an address', 'At https://public.example/a?api_key=1.', 'At ….'],
  ['a file', 'No file:///etc/models.yaml', 'No …'],
  ['a key of a known form', `Key ${key}, Bearer abcdefghijklmnop123`, 'Key …, …'],
])('a message is shown without %s', (_what, message, text) => {
  expect(withoutOwnTexts(message, own)).toBe(text)
})

test.each([
  'Unsupported value: key: temperature, token = 5, secret-garden-2; the bearer of bad news.',
  'The API version 2024-10-21 and `caching-2024-07-31` are unknown to Conservatory.',
  'No tool `get_the_current_weather_for_a_location_by_its_name` (toolu_01A09q90qw90lq917835lq917835lq9).',
  'See https://platform.openai.com/docs/guides/error-codes (request req_0123456789abcdef0123456789abcdef).',
  'Prompt has 2 <image> tokens & "1" image,\n  at /v1/chat/completions: `sk-learn` \u{1F33F} 1.2.3.4',
])('all other words stay: %s', (message) => {
  expect(withoutOwnTexts(message, own)).toBe(message)
})

test('a long message is cut between two characters, and never in a key', () => {
  expect(withoutOwnTexts(`a${'🌿'.repeat(4000)}`, [])).toSatisfy((text: string) => text.isWellFormed())
  const secret = 'garden key of Ann, '.repeat(10)
  for (let before = 0; before <= secret.length; before++) {
    const text = withoutOwnTexts(`${'-'.repeat(before)} ${secret.repeat(4000)}`, [secret])
    expect(text).not.toMatch(/garden|key|of|Ann/)
  }
  for (let before = 0; before <= key.length; before++) {
    const text = withoutOwnTexts(`${'!'.repeat(before)} ${`${key} `.repeat(2000)}`, [])
    expect(text).not.toContain('abc')
  }
})

test.each([
  ['a text', 'No fern here.', 'No fern here.'],
  ['an error that is a text', { error: 'No fern here.' }, 'No fern here.'],
  ['a list of errors', { error: ['No fern.', 'No moss.'] }, 'No fern.; No moss.'],
  ['FastAPI', { detail: 'No fern here.' }, 'No fern here.'],
  ['Pydantic', { detail: [{ loc: ['body', 'n', 0], msg: 'Field required' }] }, 'body.n.0: Field required'],
  ['RFC 9457', { type: 'about:blank', title: 'Bad', detail: 'No fern here.' }, 'No fern here.'],
  ['an inner error', { error: { error: { message: 'No fern here.' } } }, 'No fern here.'],
  ['a page', '<html>No fern here.</html>', 'The model refused the request.'],
])('the sentence of a 400 is found in %s', (_what, body, message) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  expect(refusalFrom({ status: 400, body: text }, [])).toMatchObject({ status: 400, message })
})
