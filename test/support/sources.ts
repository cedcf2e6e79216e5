import type { CharacterStore } from '../../src/characters/library/character.ts'
import { wholeOf } from '../../src/characters/library/source-bytes.ts'

/** The source bytes of a version, all together; undefined where there is none. */
export async function wholeSource(
  characters: Pick<CharacterStore, 'source'>,
  ...version: Parameters<CharacterStore['source']>
): Promise<Buffer | undefined> {
  const source = await characters.source(...version)
  return source && (await wholeOf(source))
}
