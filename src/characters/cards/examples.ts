import { ApiError } from '../../errors.ts'
import { withoutControls } from '../../text.ts'
import { spend } from '../../work/fuel.ts'

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
/** The most lines and blocks of the example dialogues together, because each line and each block may become a message. */
export const maxExampleParts = 10_000
/** Units of work for each line, besides its characters. */
const unitsOfLine = 60

/**
 * Splits a card's example dialogue into blocks of utterances. Blocks are separated by `<START>`. An utterance begins with a
 * speaker's name and a colon, `:` or `：`.
 * @param expand expands the macros of a line. It is called after the split into lines, so that a line break in a name cannot
 *   split a line.
 * @throws ApiError 400 `card_too_large` for more than 10,000 lines and blocks
 */
export function readExamples(
  examples: string,
  names: Names & { readonly nickname?: string },
  expand: (line: string) => string = (line) => line,
): readonly Utterance[][] {
  const speakers = [
    { speaker: 'user', name: names.user },
    { speaker: 'character', name: names.character },
    { speaker: 'character', name: names.nickname ?? '' },
  ] as const
  const named = speakers.filter(({ name }) => name !== '').map((each) => ({ ...each, start: each.name.toLowerCase() }))
  const longest = 1 + Math.max(0, ...named.map(({ start }) => start.length))
  const spokenBy = (line: string) => {
    // A name and its lower case may differ in length, so the compared text is longer than the longest name.
    const beginning = line.slice(0, 2 * longest).toLowerCase()
    return named.find(({ start }) => beginning.startsWith(start) && colons.has(beginning.charAt(start.length)))
  }
  spend(examples.length >> 3)
  const blocks: Utterance[][] = []
  for (const rawLines of linesOfBlocks(withoutControls(examples))) {
    const utterances: Lines[] = []
    for (const raw of rawLines) {
      const line = expand(raw)
      spend(unitsOfLine + (line.length >> 4))
      const said = line.trimStart()
      const spoken = spokenBy(said)
      if (spoken) utterances.push({ speaker: spoken.speaker, lines: [said.slice(spoken.name.length + 1)] })
      else continueLast(utterances, line)
    }
    blocks.push(utterances.map(({ speaker, lines }) => ({ speaker, text: lines.join('\n').trim() })))
  }
  return blocks
}

/** The lines of each block that is not blank. */
function* linesOfBlocks(examples: string): Generator<readonly string[]> {
  let parts = 0
  for (const block of examples.split(/<START>/i, maxExampleParts + 1)) {
    const trimmed = block.trim()
    const lines = trimmed === '' ? [] : trimmed.split('\n', maxExampleParts + 1)
    parts += 1 + lines.length
    if (parts > maxExampleParts) throw tooManyExamples()
    if (lines.length > 0) yield lines
  }
}

/** The error for example dialogues, or lore beside them, with more than `maxExampleParts` lines and blocks. */
export function tooManyExamples(): ApiError {
  return new ApiError(
    400,
    'card_too_large',
    `The example dialogues of the card, or the lore beside them, have more than ${maxExampleParts} lines and blocks together. This is the limit of one prompt. Use another card.`,
    { param: 'character' },
  )
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
