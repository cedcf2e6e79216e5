import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { composeCountedJob } from '../../src/chat/compose-counted-job.ts'
import { type ComposedPrompt, composeJob, type PromptInput } from '../../src/chat/compose-job.ts'
import { promptSize } from '../../src/openai/message-sizes.ts'
import { WorkerPool } from '../../src/work/pool.ts'
import { Works, workAtOnce } from '../../src/work/work.ts'
import { type AnyComposition, fullRequest } from '../support/composed.ts'
import { documentOf, kept, keptBook } from '../support/kept-cards.ts'

const pool = new WorkerPool()
afterAll(() => pool.close())
const work = new Works(pool).workOf({ account: 1 })

/** The JSON documents of cards in a folder of the repository. */
function documentsIn(folder: string): readonly (readonly [string, Readonly<Record<string, unknown>>])[] {
  const url = new URL(`../../${folder}/`, import.meta.url)
  const files = readdirSync(url).filter((name) => name.endsWith('.json'))
  return files.map((name) => [name, JSON.parse(readFileSync(new URL(name, url), 'utf8'))])
}

const varied = documentOf({
  description: '{{random:a,b,c,d}} {{roll:1000}} {{pick:x,y,z}} {{time}} {{isodate}} {{weekday}} {{unheard}}',
  first_mes: 'Hello {{user}}, {{random:one,two,three}}.',
  mes_example: '<START>\n{{user}}: Hi\n{{char}}: {{random:a,b}}',
  system_prompt: '{{original}} At {{time_UTC+2}}.',
  extensions: { depth_prompt: { prompt: 'Depth {{lastMessage}}', depth: 1, role: 'system' } },
  character_book: {
    entries: [
      { keys: ['/t[ea]+/i'], content: 'TEA {{random:p,q}}', enabled: true, insertion_order: 1, extensions: {} },
      { keys: ['{{user}}'], content: 'USER', enabled: true, extensions: { probability: 50, useProbability: true } },
      { constant: true, content: 'ONE', enabled: true, extensions: { group: 'g' } },
      { constant: true, content: 'TWO', enabled: true, extensions: { group: 'g', sticky: 2 } },
    ],
  },
})
const cards = [
  ...documentsIn('data/characters'),
  ...documentsIn('test/models/understudy/cards'),
  ['a card with random draws, times and patterns', varied] as const,
]

const messages = [
  { role: 'system' as const, content: 'Be kind.' },
  { role: 'user' as const, content: 'Good evening, Ada! How are the tomatoes, and the tea?' },
  { role: 'assistant' as const, content: 'They grow.', weight: JSON.rawJSON('9007199254740993') },
  { role: 'user' as const, content: [{ type: 'text' as const, text: 'And 茶 🌱 in the garden?' }] },
]
const lorebook = { entries: [{ keys: ['garden', '/g.rden/'], content: 'The garden has 12.50 m.', extensions: {} }] }

function inputOf(document: Readonly<Record<string, unknown>>, more: Partial<AnyComposition> = {}): PromptInput {
  const card = kept(document)
  return {
    request: fullRequest({
      persona: { name: 'Moss', card, userName: 'Ada', digest: card.digest },
      messages,
      settings: { systemPrompt: 'MAIN {{char}}', postHistoryPrompt: 'POST', greeting: 'auto' },
      texts: { persona: 'A gardener', lorebooks: [lorebook], seesCard: true },
      worldBooks: [keptBook({ entries: [{ keys: ['tea'], content: 'WORLD', extensions: {} }] })],
      ...more,
    }),
    shape: {},
  }
}

/** SHA-256 of the JSON of everything in a prompt. */
function digestOf(prompt: ComposedPrompt | null): string {
  if (!prompt) throw new Error('the prompt needs counts')
  const { size: _size, messages, parts, receipt, ...rest } = prompt
  const json = (value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString() : JSON.stringify(value ?? null)
  const all = [json(messages), json(parts), json(receipt?.json), json(rest)].join('\n')
  return createHash('sha256').update(all).digest('hex')
}

describe('a prompt that a worker composes', () => {
  test.each(cards)('is the same to the byte as one that is composed inline: %s', async (_name, document) => {
    const about = { model: 'm', upstreamId: 'gpt-4o', character: 'Moss', isShown: true }
    const window = { contextWindow: 500, replyTokens: 20, overflow: 'drop-oldest' } as const
    const variants = [
      [composeJob, inputOf(document)],
      [composeJob, { ...inputOf(document, { greeting: -1, worldBooks: [] }), shape: { mergeMessages: true } }],
      [composeCountedJob, inputOf(document, window)],
      [composeCountedJob, { ...inputOf(document), receipt: about }],
    ] as const
    for (const [job, input] of variants) {
      const inline = workAtOnce().run('messages', job, input)
      const inWorker = await work.runInPool('messages', job, input)
      expect(digestOf(inWorker)).toBe(digestOf(inline))
      expect(inWorker?.messages).toBeInstanceOf(Uint8Array)
      expect(inWorker?.size).toEqual(inline && !(inline.messages instanceof Uint8Array) && promptSize(inline.messages))
    }
  })

  test('has the errors of one that is composed inline', async () => {
    const faulty = inputOf(varied, { texts: { lorebooks: [{ entries: 'none' }], seesCard: true } })
    const inline = () => workAtOnce().run('messages', composeJob, faulty)
    expect(inline).toThrow('lorebooks[0]')
    await expect(work.runInPool('messages', composeJob, faulty)).rejects.toMatchObject({
      status: 400,
      code: 'invalid_field',
      param: 'lorebooks[0]',
    })
  })

  test('needs the job that counts tokens exactly if the prompt may not fit', async () => {
    const input = inputOf(varied, { contextWindow: 100_000 })
    expect(workAtOnce().run('messages', composeJob, input)).not.toBeNull()
    const tight = inputOf(varied, { contextWindow: 300 })
    expect(workAtOnce().run('messages', composeJob, tight)).toBeNull()
    expect(await work.runInPool('messages', composeJob, tight)).toBeNull()
  })
})
