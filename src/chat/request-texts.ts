import type { FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import { mayRead } from '../characters/library/character.ts'
import { readRequestBooks } from '../characters/lore/request-books.ts'
import type { RequestTexts } from '../characters/prompt/composition.ts'
import { hasHalves } from '../http/json.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { mendHalves } from '../text.ts'
import type { Work } from '../work.ts'
import type { Casting } from './casting.ts'

const standardNote = { depth: 4, role: 'system' } as const

/** Mends halves of characters in a request, which no model is to get. @param body its messages and other fields */
export async function mendRequest(request: FastifyRequest, body: CompletionRequest, work: Work): Promise<void> {
  if (hasHalves(request)) await work.run('body', mendHalves(body))
}

/**
 * What a request brings into its own prompt: who the user is, a note, and lorebooks.
 * @returns undefined for a request that brings nothing
 * @throws ApiError 400 that names the lorebook which cannot be used, and as `Work.run` does
 */
export async function requestTextsOf(
  request: FastifyRequest,
  { persona, author_note: note, lorebooks }: CompletionRequest,
  { character }: Casting,
  work: Work,
): Promise<RequestTexts | undefined> {
  const isNoted = note != null && note.text.trim() !== ''
  const isDescribed = persona != null && persona.trim() !== ''
  if (!isDescribed && !isNoted && (lorebooks ?? []).length === 0) return undefined
  const seesCard = !character || mayRead(callerOf(request), character)
  return {
    ...(isDescribed ? { persona } : {}),
    ...(isNoted
      ? {
          authorNote: {
            text: note.text,
            depth: note.depth ?? standardNote.depth,
            role: note.role ?? standardNote.role,
          },
        }
      : {}),
    ...(lorebooks ? await work.run('lorebooks', readRequestBooks(lorebooks, seesCard)) : { books: [] }),
    seesCard,
  }
}
