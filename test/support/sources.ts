import type { CharacterStore } from '../../src/characters/library/character.ts'
import { wholeOf } from '../../src/characters/library/character.ts'

/** All source bytes of a version of a character; undefined if the version does not exist. */
export async function wholeSource(
  characters: Pick<CharacterStore, 'source'>,
  ...version: Parameters<CharacterStore['source']>
): Promise<Buffer | undefined> {
  const source = await characters.source(...version)
  return source && (await wholeOf(source))
}
