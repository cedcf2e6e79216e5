import { beginningOf, copyOf } from '../../text.ts'
import { stem } from './stem.ts'

/*
 * Turns texts into search terms: plain lower-case letters, without stop words, reduced to their stems. The stop words and the
 * stems are English. Texts in languages without blanks between words become pairs of letters.
 */

/** Words that reveal nothing about the topic of a text. */
const stopWords = new Set(
  `a about actually ah again all also am an and another any anybody anyone anything anyway are around as at be been being but
  by can cannot could did do does doing done each either else er even every everything exactly for from had has have
  having he hello her here hers hey hi him his hm how however i if in indeed into is it its just least let lets like
  lot many may maybe me might mine more most much must my myself no nor not now of off oh ok okay on one or other our
  ours out over own perhaps please quite rather really right say shall she should so some somebody someone something
  still such sure than thank thanks that the their them then there these they thing things this those though through
  to too up upon us very was we well were what whatever when where whether which while who whoever whom whose why will
  with without would yeah yes yet you your yours yourself
  dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt shouldnt hasnt havent hadnt
  im ive ill id youre youve youll youd hes shes theyre theyve theyll weve thats whats whos hows wheres theres heres
  s t re ve ll d m`.split(/\s+/),
)

/** Weak words. They have a low weight, but help to choose between the hits of other words. */
const weakWords = new Set(
  `ask bad become begin best better bit bring buy change come day deal end ever explain favourite favorite few feel
  find first get give go good got great happen help hold hear idea keep kind know last leave little live long look
  love make man matter mean mind name need never new nice normally often old people person place possible problem put
  question reason run see seem set show small sort start stay stop story stuff take talk tell think time today tonight
  true truth try turn two use usually want way week wish wonder word work world wrong year advice fix`
    .split(/\s+/)
    .map((word) => stem(word)),
)

const word = /[\p{L}\p{N}][\p{L}\p{M}\p{N}]*(?:['’][\p{L}\p{M}]+)*/gu
const withoutBlanks =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー]+/gu

/** A word of a text, its index, and its search term. A stop word has no term. */
export interface Word {
  readonly text: string
  readonly index: number
  readonly term: string | null
}

/** The words of a text, in order. */
export function wordsOf(text: string): readonly Word[] {
  return Array.from(text.matchAll(word), ({ 0: found, index }) => ({ text: found, index, term: termOf(found) }))
}

/** Whether a term is the stem of a weak word. */
export function isWeak(term: string): boolean {
  return weakWords.has(term)
}

/** The search terms of a word: usually one term. In a language without blanks between words, the pairs of letters. */
export function termsOf({ term }: Word): readonly string[] {
  if (term === null) return []
  const runs = term.match(withoutBlanks)
  if (!runs) return [term]
  const others = term.split(withoutBlanks).filter((other) => other !== '')
  return [...runs.flatMap(pairsOf), ...others]
}

/**
 * A text in plain lower-case letters for comparison: without accents, full-width forms and ligatures. Some ligatures become up to
 * 18 letters, so the result is cut. This bounds the work of all comparisons, and texts of ordinary letters are shorter.
 */
export function fold(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .normalize('NFC')
    .toLowerCase()
    .slice(0, 2 * text.length + maxAddedLetters)
}

/** The most letters of a folded text beyond twice its length. */
const maxAddedLetters = 100

/** The minimum characters of a compared sentence. A shorter sentence, such as "I'm Fern.", may be said again. */
const minSentenceLength = 12

/** The sentences of a text for comparisons: words in lower case, without punctuation and without marks for names. */
export function comparedSentences(text: string): readonly string[] {
  return text
    .toLowerCase()
    .split(/[.!?…。！？*\n"“”]+/)
    .map((sentence) => sentence.replace(/[^\p{L}\p{N}]+/gu, ' ').trim())
    .filter(({ length }) => length >= minSentenceLength)
}

/** The cache of terms. A language has few words, and folding and stemming a word takes microseconds. */
const termCache = new Map<string, string | null>()
const maxCachedTerms = 10_000
const maxCachedTermLength = 40

function termOf(text: string): string | null {
  const known = termCache.get(text)
  if (known !== undefined) return known
  const copy = copyOf(text)
  const folded = fold(copy).replaceAll('’', "'")
  const [plain = ''] = folded.split("'", 1)
  const stopped = stopWords.has(folded.replaceAll("'", '')) || stopWords.has(plain) || plain === ''
  const term = stopped ? null : stem(plain)
  if (text.length <= maxCachedTermLength) {
    if (termCache.size >= maxCachedTerms) termCache.clear()
    termCache.set(copy, term)
  }
  return term
}

function pairsOf(run: string): readonly string[] {
  const letters = [...run]
  return letters.length < 2 ? letters : letters.slice(1).map((letter, index) => `${letters[index]}${letter}`)
}

const maxEchoLength = 300

/** The beginning of a text on one line, to quote it. */
export function shortened(text: string): string {
  return beginningOf(text.replace(/\s+/g, ' ').trim(), maxEchoLength)
}
