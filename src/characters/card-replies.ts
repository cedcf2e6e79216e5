import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { requireScope } from '../access/guard.ts'
import { freeBytes } from '../bytes.ts'
import { piecesOf } from '../http/pieces.ts'
import type { Work } from '../work.ts'
import type { CardSource } from './cards/source.ts'
import { type Character, unknownCharacter } from './library/character.ts'
import type { CharacterLibrary } from './library/library.ts'

/** The check for routes that read characters: the key needs one of these scopes. */
export const toRead = requireScope('chat', 'characters:write')

/** Bytes of a file that are written in one turn of the event loop. */
const pieceBytes = 64 * 1024

/** Sends bytes in pieces. */
export function sendBytes(reply: FastifyReply, bytes: Buffer): FastifyReply {
  return reply
    .header('content-length', bytes.length)
    .send(bytes.length <= pieceBytes ? bytes : Readable.from(piecesOf(bytes, pieceBytes)))
}

/**
 * Reads the source of a found character.
 * @param onMemory called before memory for unpacked content is allocated
 * @throws ApiError 404 if the character was removed or changed since it was found, and errors of `onMemory`
 */
export async function readSource(
  library: CharacterLibrary,
  account: number,
  character: Pick<Character, 'name' | 'digest'>,
  work: Work,
  onMemory: (unpackedBytes: number) => void,
): Promise<CardSource> {
  const bytes = await library.source(account, character, work)
  if (!bytes) throw unknownCharacter()
  const { cardSourceSteps } = await import('./cards/source.ts')
  try {
    return await work.run('name', cardSourceSteps(bytes, onMemory))
  } catch (error) {
    freeBytes(bytes)
    throw error
  }
}
