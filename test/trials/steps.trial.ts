import { expect, it, onTestFinished, vi } from 'vitest'
import { Scheduler, type Steps, type Work, workAtOnce } from '../../src/work.ts'
import { startTestService, type TestService } from '../support/service.ts'

/*
 * The longest step of the work that a text can cause. Each field of a card and of a chat gets a text that repeats a piece, for
 * example three million commas, and the CPU time of each step is measured. Settings:
 *
 *   FIELDS=tags|lore       only fields whose names match
 *   LETTERS=3000000        the length of each text
 */

const letters = Number(process.env['LETTERS'] ?? 3_000_000)
const wanted = new RegExp(process.env['FIELDS'] ?? '')

/** The most CPU milliseconds of a step, garbage collections included. */
const maxMs = 50

const pieces = [
  ...' \n\t\r.!)(*",;{}<>-:/\\@|=[]aéß🌿İ\u0301\u00a0\u3000，。？「',
  ...[
    ' .',
    '. ',
    '\n ',
    ' \n',
    '\r\n',
    '\n\n ',
    ' ,',
    ', ',
    ' (',
    ')\n',
    '"(',
    'a(',
    'a (',
    '*a',
    'a*',
    '("',
    'a: ',
    'a=',
    '<a',
  ],
  ...[
    '<START>',
    '<START>\n',
    '<USER>',
    '{{char}}',
    '{{user}}: ',
    '{{',
    '}}',
    '{{//',
    '{{if a}}',
    '{{if a}}{{/if}}',
    '{{random:',
  ],
  ...[
    '::',
    'Moss: ',
    'Moss:\n',
    'you are ',
    'are you ',
    "Moss's ",
    'is a ',
    'what? ',
    'Dr. ',
    'Age: 3\n',
    'a b c ',
    '@@',
    '@@a ',
  ],
  ...[
    '@@depth 1\n',
    '/a/',
    '1.',
    'https://',
    'a@b.',
    '![',
    '```',
    '\nuser:',
    'A, ',
    'A + ',
    'Traits("a" + ',
    '{"a":',
    'moss and fern ',
  ],
]

interface Asked {
  readonly card?: object
  readonly messages?: readonly object[]
  readonly more?: object
}

const said = (...contents: readonly string[]) => ({
  messages: contents.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content })),
})
const lore = (fields: object) => ({
  card: { character_book: { entries: [{ keys: ['hi'], content: 'a', enabled: true, insertion_order: 1, ...fields }] } },
})

const fields: Readonly<Record<string, (text: string) => Asked>> = {
  description: (description) => ({ card: { description } }),
  greeting: (first_mes) => ({ card: { first_mes } }),
  condition: (text) => ({ card: { description: `{{if char}} ${text.slice(0, 1_000_000)}{{/if}}` } }),
  examples: (mes_example) => ({ card: { mes_example } }),
  utterance: (text) => ({ card: { mes_example: `{{user}}: hi\n{{char}}: ${text}` } }),
  'system prompt': (system_prompt) => ({ card: { system_prompt } }),
  tags: (tags) => ({ card: { tags } }),
  notes: (creator_notes) => ({ card: { creator_notes } }),
  lore: (content) => lore({ content }),
  'secondary keys': (text) => lore({ selective: true, secondary_keys: text }),
  groups: (group) => lore({ extensions: { group } }),
  pattern: (text) => lore({ use_regex: true, keys: [`/${text.slice(0, 2000)}/`] }),
  question: (text) => said(text),
  'question at the end': (text) => said(`${text} what is it?`),
  reply: (text) => said('hi', text, 'what did you say?'),
  'begun reply': (text) => said('hi', text),
  'earlier question': (text) => said(text, 'yes', 'what did I say?'),
  system: (content) => ({ messages: [{ role: 'system', content }, ...said('who are you?').messages] }),
  schema: (description) => ({
    more: {
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'string', description } } },
    },
  }),
}

/** Work without slices that reports the CPU milliseconds of each step. */
function measuredWork(onStep: (ms: number) => void): Work {
  function* measured<T>(steps: Steps<T>): Steps<T> {
    for (;;) {
      const before = process.threadCpuUsage()
      const { done, value } = steps.next()
      const { user, system } = process.threadCpuUsage(before)
      onStep((user + system) / 1000)
      if (done) return value
      yield value
    }
  }
  const work = workAtOnce()
  return { run: (param, steps) => work.run(param, measured(steps)) }
}

async function ask({ request }: TestService, { card, messages = said('hi').messages, more }: Asked): Promise<void> {
  const put = (data: object) =>
    request('/characters/Moss', {
      method: 'PUT',
      json: {
        spec: 'chara_card_v3',
        spec_version: '3.0',
        data: { name: 'Moss', description: '', first_mes: '', ...data },
      },
    })
  await put(card ?? {})
  for (const path of ['/chat/completions', '/chat/prompt']) {
    await request(path, { method: 'POST', json: { model: 'understudy', character: 'Moss', messages, ...more } })
  }
}

it.each(Object.keys(fields).filter((name) => wanted.test(name)))('no step takes 50 ms: %s', async (name) => {
  let longest = 0
  vi.spyOn(Scheduler.prototype, 'workOf').mockImplementation(() =>
    measuredWork((ms) => {
      longest = Math.max(longest, ms)
    }),
  )
  const service = await startTestService()
  onTestFinished(service.close)
  // Warm-up: Node compiles the code.
  await ask(service, {})
  for (const piece of pieces) {
    const text = piece.repeat(letters / piece.length)
    for (const each of [text, `x${text}x`]) {
      longest = 0
      await ask(service, fields[name]?.(each) ?? {})
      expect.soft(longest, `${name} of ${JSON.stringify(piece)}`).toBeLessThan(maxMs)
    }
  }
})
