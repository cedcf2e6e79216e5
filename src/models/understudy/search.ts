import MiniSearch from 'minisearch'
import { spend } from '../../work/fuel.ts'

/** A text that is searched. */
export interface Searched {
  /** Its index among the searched texts. */
  readonly id: number
  /** What the text answers. */
  readonly cue: string
  readonly text: string
}

/** A passage that matches a question. */
export interface Hit<Passage extends Searched> {
  readonly passage: Passage
  /** The quality of the match. If one rare word is the whole question and is in the passage, the score is about 1. */
  readonly score: number
}

/** Words that say nothing about the topic of a question. */
const stopWords = new Set(
  `a about again ah all also am an and any anything are as at be been being but by can cannot cant could day did didnt do does
  doesnt doing dont ever every everything for from get give go going got had has have he hello her here hey hi him his how i id
  if ill im in into is isnt it its ive just know let like little ll look many may maybe me might mine more most much must my name
  need never no not nothing now of off oh ok on one or our out over please put re really s say she should so some something t
  take tell than thank thanks that thats the their them then there these they thing things this think those time to today too up
  us use ve very want was way we well went were what whats when whether which while who whos whose why will with would yes
  yet you your youre yours yourself`.split(/\s+/),
)

/** A word. In languages without blanks between words, a single letter. */
const word =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|[\p{L}\p{N}\p{M}]+/gu

/** The most distinct words of a question that are searched: the last, because a question comes at the end of a message. */
const maxTerms = 40
/** The most letters of a word that may have wrong letters, because the comparison grows with the square of the letters. */
const maxTypingLength = 40
/** Units of work for each passage of an index, for each of its letters, and for each word that is looked up in a passage. */
const unitsOfPassage = 1000
const unitsOfLetter = 30
const unitsOfTrial = 100

/** A text in plain lower-case letters, without accents, full-width forms and ligatures. Some ligatures become 18 letters. */
export function fold(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase()
}

/** The folded words of a text. */
export function wordsOf(text: string): readonly string[] {
  return fold(text).replaceAll(/['’]/g, '').match(word) ?? []
}

/** The search terms of a text: its words without stop words, and without the usual English endings. */
export function termsOf(text: string): readonly string[] {
  return wordsOf(text)
    .filter((each) => !stopWords.has(each))
    .map((each) =>
      each.replace(/(?<=[a-z]{3})(?:ings?|e?d|ies|e?s|ly|e|y)$/, '').replace(/([b-df-hj-np-tv-z])\1$/, '$1'),
    )
}

/** Makes the search index of passages. @returns a function that finds the passages that match a question, best first */
export function createSearch<Passage extends Searched>(passages: readonly Passage[]) {
  const index = new MiniSearch<Passage>({
    fields: ['cue', 'text'],
    tokenize: (text) => [...new Set(termsOf(text))],
    processTerm: (term) => term,
    searchOptions: {
      boost: { cue: 3 },
      prefix: (term) => term.length >= 4,
      fuzzy: (term) => (term.length < 5 || term.length > maxTypingLength ? 0 : term.length < 8 ? 1 : 2),
      bm25: { k: 1.2, b: 0.4, d: 0.5 },
      weights: { prefix: 0.8, fuzzy: 0.2 },
    },
  })
  for (const passage of passages) {
    spend(unitsOfPassage + (passage.cue.length + passage.text.length) * unitsOfLetter)
    index.add(passage)
  }
  const scoreOfOne = Math.log(1 + (passages.length - 0.5) / 1.5)
  return (question: string): Hit<Passage>[] => {
    const terms = [...new Set(termsOf(question))].slice(-maxTerms)
    spend(terms.length * (unitsOfPassage + index.termCount + passages.length * unitsOfTrial))
    return index
      .search(terms.join(' '), { tokenize: () => terms })
      .flatMap(({ id, score, queryTerms }) => {
        const passage = passages[Number(id)]
        return passage ? { passage, score: (score * queryTerms.length) / terms.length / scoreOfOne } : []
      })
      .sort((one, other) => other.score - one.score || one.passage.id - other.passage.id)
  }
}
