/** The names that a card's texts speak of. */
export interface Names {
  readonly character: string
  readonly user: string
}

/** One utterance of an example dialogue; `speaker` is null for lines that nobody is named for. */
export interface Utterance {
  readonly speaker: 'user' | 'character' | null
  readonly text: string
}

/**
 * Splits a card's example dialogue into blocks of utterances: blocks stand between `<START>` markers, utterances begin
 * with a speaker's name and a colon.
 * @param expand expands the macros of a line: after the lines were told apart, so that no name can end one
 */
export function readExamples(
  examples: string,
  names: Names & { readonly nickname?: string },
  expand = (line: string): string => line,
): readonly Utterance[][] {
  const speakers = [
    { speaker: 'user', name: names.user },
    { speaker: 'character', name: names.character },
    { speaker: 'character', name: names.nickname ?? '' },
  ] as const
  const spokenBy = (line: string) => {
    const start = line.trimStart().toLowerCase()
    return speakers.find(({ name }) => name !== '' && start.startsWith(`${name.toLowerCase()}:`))
  }
  return examples
    .replaceAll('\r', '')
    .split(/<START>/i)
    .map((block) => block.trim())
    .filter((block) => block !== '')
    .map((block) => {
      const utterances: { speaker: Utterance['speaker']; lines: string[] }[] = []
      for (const line of block.split('\n').map(expand)) {
        const start = spokenBy(line)
        const current = utterances.at(-1)
        if (start) {
          utterances.push({ speaker: start.speaker, lines: [line.trimStart().slice(start.name.length + 1)] })
        } else if (current) {
          current.lines.push(line)
        } else {
          utterances.push({ speaker: null, lines: [line] })
        }
      }
      return utterances.map(({ speaker, lines }) => ({ speaker, text: lines.join('\n').trim() }))
    })
}
