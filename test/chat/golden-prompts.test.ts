import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { conversation, loreCard } from '../../bench/compose.ts'
import { sources } from '../support/card-readers/cards.ts'
import { projectFolder, spawnService } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import type { Compared } from '../support/sillytavern/case.ts'
import { cases } from '../support/sillytavern/cases.ts'
import { completion, json, startUpstream } from '../support/upstream.ts'

/*
 * Prompts and receipts, the same to the byte as those of an earlier version. The file of digests is from that version:
 *
 *   CHECKOUT=../old npx vitest run test/chat/golden-prompts.test.ts -u
 *
 * The service of another checkout needs its node_modules.
 */

const digests = '../fixtures/prompts/digests.txt'
const folder = resolve(process.env['CHECKOUT'] ?? projectFolder)

/** Macros and lore that depend on the time, or on a draw of each request. */
const varying = /\{\{(random|roll|time|date|weekday|iso)|"probability":(?!100\b)\d|"group":"\w/i

/** A conversation of 150 kB, which is read and composed in a worker. */
const history = Array.from({ length: 300 }, (_none, index) => ({
  role: index % 2 === 0 ? 'user' : 'assistant',
  content: `${index}: ${'The leaves turn towards the window. '.repeat(14)}`,
}))

/** One prompt: a card, which the service has if it is undefined, and a chat. */
interface Asked {
  readonly name: string
  readonly card?: object
  readonly chat: { readonly messages: readonly object[]; readonly character: string } & Record<string, unknown>
}

const hello = [{ role: 'user', content: 'Hello! How do I keep a monstera alive?' }]

const asked: readonly Asked[] = [
  ...['Fern', 'Bolt', 'Tolliver', 'Captain Vesper'].map((character) => ({
    name: character,
    chat: { character, messages: hello },
  })),
  ...Object.entries(sources).map(([name, { card }]) => ({
    name,
    card,
    chat: { character: 'Golden', messages: [...hello, { role: 'user', content: '門 and the gate' }] },
  })),
  {
    name: 'a card with 1,000 lore entries',
    card: loreCard(1000),
    chat: { character: 'Golden', messages: [...conversation, ...hello] },
  },
  ...cases.filter((each) => !varying.test(JSON.stringify(each))).map(askedIn),
]

function askedIn({
  area,
  name,
  card,
  messages,
  greeting,
  echo,
  userName,
  persona,
  note,
  worlds = [],
}: Compared): Asked {
  const lorebooks = worlds.flatMap(({ book }) => (book ? [{ spec: 'lorebook_v3', data: book }] : []))
  return {
    name: `${area}: ${name}`,
    card,
    chat: {
      character: 'Golden',
      user_name: userName ?? 'Ada',
      messages: [...(echo === undefined ? [] : [{ role: 'assistant', content: echo }]), ...messages],
      ...(greeting === undefined || echo !== undefined ? {} : { greeting }),
      ...(persona === undefined ? {} : { persona }),
      ...(note === undefined ? {} : { author_note: note }),
      ...(lorebooks.length === 0 ? {} : { lorebooks }),
    },
  }
}

/** A world book of the operator, which is in every prompt. */
const worldBook = cases.flatMap(({ worlds = [] }) => worlds.flatMap(({ file }) => (file ? [file] : [])))[0]

async function startGolden() {
  const upstream = await startUpstream(json(completion('Hello.')))
  onTestFinished(() => upstream.close())
  const data = temporaryFolder()
  onTestFinished(data.remove)
  const model = { adapter: 'openai', baseUrl: upstream.url, model: 'gpt-4o', contextWindow: 128_000 }
  const small = { ...model, contextWindow: 4000, overflow: 'drop-oldest' }
  writeFileSync(join(data.path, 'models.json'), JSON.stringify({ models: { golden: model, small } }))
  mkdirSync(join(data.path, 'lorebooks'))
  writeFileSync(join(data.path, 'lorebooks', 'world.json'), JSON.stringify(worldBook))
  const environment = { DATA_DIR: data.path, BOOTSTRAP_KEY: 'a-key-for-the-golden-prompts' }
  const { url, key } = await spawnService(process.execPath, ['src/main.ts'], { folder, environment })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const send = async (method: string, path: string, body: object) => {
    const reply = await fetch(url + path, { method, headers, body: JSON.stringify(body) })
    const text = await reply.text()
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`)
    return text
  }
  return { upstream, send }
}

const digestOf = (...texts: readonly string[]) => createHash('sha256').update(texts.join('\n')).digest('hex')

it('composes the prompts and receipts of all cards as before, inline and in workers', { timeout: 60_000 }, async () => {
  const { upstream, send } = await startGolden()
  const lines: string[] = []
  for (const [index, { name, card, chat }] of asked.entries()) {
    if (card) await send('PUT', `/characters/${chat.character}`, card)
    const fixed = { conversation_id: 'golden', ...chat }
    const bodies = {
      inline: { model: 'golden', ...fixed },
      'drop-oldest': { model: 'small', ...fixed, messages: [...history.slice(0, 60), ...chat.messages] },
      // A large chat takes longer, so only every eighth card is in one.
      ...(index % 8 === 0
        ? { 'in a worker': { model: 'golden', ...fixed, messages: [...history, ...chat.messages] } }
        : {}),
    }
    for (const [how, body] of Object.entries(bodies)) {
      const receipt = await send('POST', '/chat/prompt', body)
      await send('POST', '/chat/completions', body)
      const prompt = upstream.calls.at(-1)?.text ?? ''
      lines.push(`${digestOf(receipt, prompt)} ${name}, ${how}`)
    }
  }
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(digests)
})
