import { toolCalls } from './chats.ts'
import { hi, json, postRow, type Row, times } from './row.ts'

/* Conversations for adapters that translate them: tool arguments, pictures, files. */

const path = '/chat/completions'
const chat = (model: string, messages: readonly object[]) => ({ model, messages })
const adapterRow = (name: string, model: string, messages: () => readonly object[], more: Partial<Row> = {}): Row =>
  postRow(`${model}: ${name}`, path, () => json(chat(model, messages())), {
    small: chat(model, [...hi, { role: 'assistant', content: 'Ho' }, ...hi]),
    isLargest: true,
    ...more,
  })

const lines =
  (count: number, ...roles: readonly string[]) =>
  () =>
    times(count, (index) => ({ role: roles[index % roles.length], content: `Line ${index}` }))
const parts = (count: number, part: (index: number) => object) => () => [
  { role: 'user', content: [{ type: 'text', text: 'Look:' }, ...times(count, part)] },
]
const picture = (url: string) => ({ type: 'image_url', image_url: { url } })

/** The base64 of an empty ID3 tag, and the signature of a PNG. A package skips the tag, and for this decodes 131 kB. */
const likeSound = Buffer.from('ID3\x04\0\0\0\0\0\0\x89PNG\r\n\x1a\n', 'latin1').toString('base64')

/** `蕨~~?` in URL-safe base64: the text becomes a string with two bytes for each letter. */
const text = '6JWofn4_'

/** The models whose adapters translate requests, each with its own code. */
const translating = ['claude', 'gemini', 'compatible', 'merging']

export const adapters: readonly Row[] = [
  adapterRow('50,000 leading system messages', 'claude', lines(50_000, 'system')),
  ...['gemini', 'compatible', 'merging'].map((model) =>
    adapterRow('50,000 leading system messages', model, lines(50_000, 'system')),
  ),
  ...translating.map((model) =>
    adapterRow('120,000 messages, user and assistant', model, lines(120_000, 'user', 'assistant')),
  ),
  adapterRow('120,000 messages, user and system', 'claude', lines(120_000, 'user', 'system')),
  adapterRow('120,000 messages of the user', 'merging', lines(120_000, 'user')),
  ...['relay', 'merging'].map((model) =>
    adapterRow('10,000 messages of the user with 790 letters', model, () =>
      times(10_000, () => ({ role: 'user', content: 'My leaves '.repeat(79) })),
    ),
  ),
  adapterRow('120,000 messages, only read', 'none', lines(120_000, 'user', 'assistant'), {}),
  adapterRow('120,000 messages, passed on', 'relay', lines(120_000, 'user', 'assistant')),
  ...['claude', 'gemini'].flatMap((model) => [
    adapterRow('20,000 tool calls and their results', model, () => toolCalls(20_000)),
    adapterRow('tool arguments of 7 MB that nest', model, () =>
      toolCalls(1, `{"a":${'['.repeat(3_500_000)}${']'.repeat(3_500_000)}}`),
    ),
    adapterRow('tool arguments of 5 MB with 400,000 fields', model, () =>
      toolCalls(1, JSON.stringify(Object.fromEntries(times(400_000, (index) => [`f${index}`, 1])))),
    ),
    adapterRow('40 tool calls with 99,000 values each', model, () =>
      toolCalls(40, `{"a":[${Array(99_000).fill(1).join()}]}`),
    ),
    adapterRow('900 tool calls with 4,000 values each', model, () =>
      toolCalls(900, `{"a":[${Array(4000).fill(1).join()}]}`),
    ),
    adapterRow('a picture of 7.5 MB in a data: URL', model, () => [
      { role: 'user', content: [picture(`data:image/png;base64,${'A'.repeat(7_500_000)}`)] },
    ]),
    postRow(
      `${model}: a picture of 7.5 MB, 8 choices`,
      path,
      () => {
        const content = [picture(`data:image/png;base64,${'A'.repeat(7_500_000)}`)]
        return json({ ...chat(model, [{ role: 'user', content }]), n: 8 })
      },
      { small: { ...chat(model, hi), n: 8 }, isLargest: true },
    ),
    adapterRow(
      '60,000 pictures in data: URLs',
      model,
      parts(60_000, () => picture('data:image/png;base64,iVBORw0KGgo=')),
    ),
    adapterRow('a text file of 7.5 MB in URL-safe base64', model, () => [
      { role: 'user', content: [{ type: 'file', file: { filename: 'a.txt', file_data: text.repeat(937_500) } }] },
    ]),
    adapterRow('a text file of 7.5 MB that is no UTF-8', model, () => [
      { role: 'user', content: [{ type: 'file', file: { filename: 'a.txt', file_data: '-_'.repeat(3_750_000) } }] },
    ]),
    adapterRow('a data: URL of 7.5 MB of escapes', model, () => [
      { role: 'user', content: [picture(`data:image/png,${'%41'.repeat(2_500_000)}`)] },
    ]),
    adapterRow('46 pictures without a subtype', model, () => [
      { role: 'user', content: times(46, () => picture(`data:image/*;base64,${'-_'.repeat(80_000)}`)) },
    ]),
    adapterRow('46 pictures without a subtype that begin like sounds', model, () => [
      { role: 'user', content: times(46, () => picture(`data:image/*;base64,${likeSound}${'-_'.repeat(80_000)}`)) },
    ]),
    adapterRow('a data: URL of 7.5 MB of semicolons', model, () => [
      { role: 'user', content: [picture(`data:${';'.repeat(7_500_000)}`)] },
    ]),
  ]),
  adapterRow(
    '80,000 addresses of pictures',
    'claude',
    parts(80_000, (index) => picture(`https://a.example/${index}.png`)),
  ),
  adapterRow('a file of 7.5 MB', 'claude', () => [
    { role: 'user', content: [{ type: 'file', file: { filename: 'a.pdf', file_data: 'A'.repeat(7_500_000) } }] },
  ]),
  adapterRow('a picture of 7.5 MB in a data: URL', 'understudy', () => [
    { role: 'user', content: [picture(`data:image/png;base64,${'A'.repeat(7_500_000)}`)] },
  ]),
]
