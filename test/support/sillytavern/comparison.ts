import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { startTestService, type TestService, temporaryFolder } from '../service.ts'
import type { Compared, Told } from './case.ts'

/** The prompts of both programs for a case. */
export interface Verdict {
  readonly compared: Compared
  /** The normalised messages that SillyTavern sends to its upstream. */
  readonly theirs: readonly Told[]
  /** The normalised messages of the service, as `POST /chat/prompt` returns them. */
  readonly ours: readonly Told[]
}

/** Whether both programs send the same messages. */
export function isSame({ theirs, ours }: Verdict): boolean {
  return JSON.stringify(theirs) === JSON.stringify(ours)
}

/**
 * Makes messages comparable: it trims each message, removes empty messages, and joins adjacent messages of the same role that
 * have no name. Before the conversation it joins them by a blank line, and within the conversation by a line break. The reason:
 * SillyTavern sends each field of a card as a message, and several entries at one depth as one message. The service sends all
 * fields before the conversation as one message, and each entry at a depth as one message.
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
 * Requests the prompt of a case from the service, in an account that has the card of the case.
 * @param shared a service without world books. A case with a world file gets its own service
 * @throws Error with the reply of the service, if it refuses the card or the request
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
