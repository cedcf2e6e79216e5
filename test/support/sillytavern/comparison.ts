import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { startTestService, type TestService, temporaryFolder } from '../service.ts'
import type { Compared, Told } from './case.ts'

/** What came of a case. */
export interface Verdict {
  readonly compared: Compared
  /** What SillyTavern sends its upstream, normalised. */
  readonly theirs: readonly Told[]
  /** What `POST /chat/prompt` says that a model would be sent, normalised. */
  readonly ours: readonly Told[]
}

/** Whether both send the same. */
export function isSame({ theirs, ours }: Verdict): boolean {
  return JSON.stringify(theirs) === JSON.stringify(ours)
}

/**
 * Messages by what they say: each trimmed, empty ones left out, and neighbours of one role and name as one message.
 * SillyTavern sends each field as a message, and several entries at one depth as one; the service sends the fields
 * before the conversation as one message, and each entry at a depth as one. Neighbours are joined by a blank line
 * before the conversation, and by a line break in it.
 */
export function normalised(messages: readonly Told[]): readonly Told[] {
  const said: Told[] = []
  let hasBegun = false
  for (const { role, content, name } of messages) {
    const text = content.trim()
    if (text === '') continue
    hasBegun ||= role !== 'system'
    const last = said.at(-1)
    if (last?.role === role && last.name === name && name === undefined) {
      said[said.length - 1] = { role, content: `${last.content}${hasBegun ? '\n' : '\n\n'}${text}` }
    } else {
      said.push({ role, content: text, ...(name === undefined ? {} : { name }) })
    }
  }
  return said
}

const receipt = Type.Object({
  messages: Type.Array(
    Type.Object({ role: Type.String(), content: Type.String(), name: Type.Optional(Type.String()) }),
  ),
})

/**
 * Asks the service for the prompt of a case, in an account that has the case's card.
 * @param shared a service without world books; a case with a world file gets one of its own
 * @throws Error with the service's answer where it refuses the card or the request
 */
export async function promptOf(compared: Compared, shared: TestService): Promise<readonly Told[]> {
  const files = (compared.worlds ?? []).flatMap(({ file }) => (file ? [file] : []))
  if (files.length === 0) return await askedFor(compared, shared)
  const folder = temporaryFolder()
  mkdirSync(join(folder.path, 'lorebooks'))
  for (const [index, file] of files.entries()) {
    writeFileSync(join(folder.path, 'lorebooks', `${index}.json`), JSON.stringify(file))
  }
  const service = await startTestService({ DATA_DIR: folder.path })
  try {
    return await askedFor(compared, service)
  } finally {
    await service.close()
    folder.remove()
  }
}

async function askedFor(compared: Compared, service: TestService): Promise<readonly Told[]> {
  const { card, messages, greeting, echo, userName = 'Ada', persona, note, worlds = [] } = compared
  const uploaded = await readJson(await service.request('/characters', { json: card }))
  const { name } = Value.Decode(Type.Object({ name: Type.String() }), uploaded)
  const lorebooks = worlds.flatMap(({ book }) => (book ? [{ spec: 'lorebook_v3', data: book }] : []))
  const asked = await service.request('/chat/prompt', {
    json: {
      model: 'understudy',
      character: name,
      user_name: userName,
      messages: [...(echo === undefined ? [] : [{ role: 'assistant', content: echo }]), ...messages],
      ...(greeting === undefined || echo !== undefined ? {} : { greeting }),
      ...(persona === undefined ? {} : { persona }),
      ...(note === undefined ? {} : { author_note: note }),
      ...(lorebooks.length === 0 ? {} : { lorebooks }),
    },
  })
  const { messages: told } = Value.Decode(receipt, await readJson(asked))
  await service.request(`/characters/${encodeURIComponent(name)}`, { method: 'DELETE' })
  return told
}

async function readJson(response: Response): Promise<unknown> {
  const text = await response.text()
  if (!response.ok) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text)
}
