import { ApiError } from '../../errors.ts'
import type { Steps } from '../../work.ts'

/** The names of the character and the user in a card's texts. */
export interface Names {
  readonly character: string
  readonly user: string
}

/** One utterance of an example dialogue; `speaker` is null for lines without a name. */
export interface Utterance {
  readonly speaker: 'user' | 'character' | null
  readonly text: string
}

/** Separators between a name and an utterance; the second is used in Chinese and Japanese texts. */
const colons: ReadonlySet<string> = new Set([':', '：'])
/** The most utterances and blocks of one dialogue: each is a message of the prompt, and a request may have as many messages. */
const maxParts = 10_000
/** Units of work for each line, besides its characters; and the units after which a step ends. */
const unitsOfLine = 60
const unitsOfStep = 1000

/**
 * Splits a card's example dialogue into blocks of utterances. Blocks are separated by `<START>`. An utterance begins with a
 * speaker's name and a colon, `:` or `：`.
 * @param expand expands the macros of a line; called after the split into lines, so that a line break in a name cannot split a
 *   line
 * @throws ApiError 400 `card_too_large` for more than 10,000 utterances and blocks
 */
export function* readExamples(
  examples: string,
  names: Names & { readonly nickname?: string },
  expand: (line: string) => Steps<string> = unchanged,
): Steps<readonly Utterance[][]> {
  const speakers = [
    { speaker: 'user', name: names.user },
    { speaker: 'character', name: names.character },
    { speaker: 'character', name: names.nickname ?? '' },
  ] as const
  const named = speakers.filter(({ name }) => name !== '').map((each) => ({ ...each, start: each.name.toLowerCase() }))
  const longest = 1 + Math.max(0, ...named.map(({ start }) => start.length))
  const spokenBy = (line: string) => {
    // A character and its lower case may differ in length, so more characters than the longest name has are compared.
    const beginning = line.slice(0, 2 * longest).toLowerCase()
    return named.find(({ start }) => beginning.startsWith(start) && colons.has(beginning.charAt(start.length)))
  }
  yield examples.length >> 3
  const blocks: Utterance[][] = []
  let units = 0
  const countPart = partCounter()
  for (const block of examples.replaceAll('\r', '').split(/<START>/i, maxParts + 1)) {
    countPart()
    const trimmed = block.trim()
    if (trimmed === '') continue
    const utterances: Lines[] = []
    for (const raw of trimmed.split('\n')) {
      const line = yield* expand(raw)
      units += unitsOfLine + (line.length >> 4)
      if (units >= unitsOfStep) {
        yield units
        units = 0
      }
      const said = line.trimStart()
      const spoken = spokenBy(said)
      if (spoken) {
        countPart()
        utterances.push({ speaker: spoken.speaker, lines: [said.slice(spoken.name.length + 1)] })
      } else continueLast(utterances, line)
    }
    blocks.push(utterances.map(({ speaker, lines }) => ({ speaker, text: lines.join('\n').trim() })))
  }
  return blocks
}

/** A function that counts one more utterance or block. */
function partCounter(): () => void {
  let parts = 0
  return () => {
    if (++parts <= maxParts) return
    throw new ApiError(
      400,
      'card_too_large',
      `The example dialogues of the card have more than ${maxParts} utterances and blocks, more than one prompt may have. Use another card.`,
      { param: 'character' },
    )
  }
}

/** The lines of one utterance. */
interface Lines {
  readonly speaker: Utterance['speaker']
  readonly lines: string[]
}

/** Adds a line to the last utterance, or begins an utterance without a speaker. */
function continueLast(utterances: Lines[], line: string): void {
  const current = utterances.at(-1)
  if (current) current.lines.push(line)
  else utterances.push({ speaker: null, lines: [line] })
}

// biome-ignore lint/correctness/useYield: the default of a function that yields
function* unchanged(line: string): Steps<string> {
  return line
}
