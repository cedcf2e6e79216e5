import * as phrases from './phrases.ts'
import { pickKeyOf, type ReplyContext, unsaidPhrase } from './reply-context.ts'
import { userNameMark } from './user-name-mark.ts'
import { fold, isWeak, shortened, wordsOf } from './words.ts'

/*
 * Answers questions about the conversation itself. Sentences of the user are quoted, or repeated in the second person: "my dog is
 * called Rex" becomes "your dog is called Rex".
 */

const asksName = /\b(?:what(?:'s| is| was) my name|(?:know|remember|recall|forgot|forgotten|say) my name|who am i)\b/
const asksOwnWords =
  /\b(?:what did you (?:just )?say|say (?:that|it) again|repeat (?:that|it|yourself)|come again|pardon)\b/
const asksFirst = /\bmy first (?:question|message)\b|\bwhat did i (?:say|ask|tell you) (?:at )?first\b/
const asksWords =
  /\b(?:what did i (?:just )?(?:say|ask|tell)|what was my (?:last )?question|remember what i said|what i (?:just )?(?:said|told you|asked))\b/
const asksPlace = /\b(?:what (?:were|are) we talking about|where were we)\b/
const asksStatement = /\b(?:my|i|me|mine)\b/

/** Answers a question about the conversation itself; null for any other question. */
export function recall(context: ReplyContext): string | null {
  const { conversation, userName, choice } = context
  const asked = fold(conversation.question).replaceAll('’', "'")
  if (asksName.test(asked)) {
    return userName === null ? 'You have not told me your name yet.' : `You are ${userNameMark}, unless I misheard.`
  }
  const said = conversation.said.at(-1)
  if (asksOwnWords.test(asked) && said !== undefined) return `I said: ${said.slice(0, maxRecalledLength)}`
  const asksBack = [asksFirst, asksWords, asksPlace].some((form) => form.test(asked))
  if (asksBack) {
    const wanted = recalledText(context, asked)
    return wanted ? `You said: “${shortened(wanted)}”` : 'Nothing yet; you have only just begun.'
  }
  if (!/\?\s*$|^do you remember/.test(asked) || !asksStatement.test(asked)) return null
  const statement = statementAbout(context, asked)
  if (statement === undefined) return null
  const turned = unsaidPhrase(context, phrases.recollections, pickKeyOf(context), choice)
  return turned.replace('%', () => inSecondPerson(statement))
}

/** The earlier message or statement of the user that a question asks for, such as the first message. */
function recalledText(context: ReplyContext, asked: string): string | undefined {
  const { earlier } = context.conversation
  if (asksFirst.test(asked)) return earlier[0]
  const own = asksPlace.test(asked) ? undefined : (statementAbout(context, asked) ?? lastStatement(context))
  return own ?? earlier.at(-1)
}

const maxRecalledLength = 600

/** The last statement of the user about the user that shares a significant word, or two weak words, with the question. */
function statementAbout({ conversation }: ReplyContext, question: string): string | undefined {
  const asked = new Set(termsIn(question))
  const sentences = conversation.earlier.flatMap(
    (text) => text.slice(-maxRecalledLength).match(/[^.!?\n]+[.!?]*/g) ?? [],
  )
  return sentences
    .map((sentence) => sentence.trim())
    .filter((sentence) => isStatement(sentence) && /\b(?:my|i|i'm|we|our)\b/i.test(sentence))
    .findLast((sentence) => termsIn(sentence).reduce((sum, term) => sum + weightOf(term, asked), 0) >= minSharedWeight)
}

/** The last statement of the user about the user. */
function lastStatement({ conversation }: ReplyContext): string | undefined {
  return conversation.earlier.findLast((text) => isStatement(text) && echoOf(text) !== null)
}

/** The minimum weight of the words that a statement shares with a question: one significant word, or two weak words. */
const minSharedWeight = 2

function weightOf(term: string, asked: ReadonlySet<string>): number {
  if (!asked.has(term)) return 0
  return isWeak(term) ? 1 : minSharedWeight
}

function termsIn(text: string): readonly string[] {
  return [...new Set(wordsOf(text).flatMap(({ term }) => (term === null ? [] : [term])))]
}

/** Whether a text is a statement, and not a question or an order. */
export function isStatement(text: string): boolean {
  const plain = text
    .trim()
    .replace(/^(?:well|so|and|but|oh|ok|okay|yes|no|hm+|actually|anyway|by the way)\b[\s,.!]*/i, '')
  return (
    !/\?\s*["”']?$/.test(plain) &&
    !/^(?:who|what|when|where|why|how|which|whose|is|are|was|were|do|does|did|can|could|will|would|should|shall|may|have|has|tell|give|show|explain|describe|let|sing|write|say|please|go|come|stop|make|help|read|teach|recommend|suggest|imagine|pretend|act|play|list|name|define|translate|calculate|compute|print|ignore|repeat|forget|remember)\b/i.test(
      plain,
    )
  )
}

/** Turns a short statement of the user about the user into the second person. Null for any other text. */
export function echoOf(text: string): string | null {
  const plain = text
    .trim()
    .replace(/^(?:well|so|and|but|oh|ok|okay|yes|no|hm+|actually|anyway|by the way|you know)\b[\s,.!]*/i, '')
  if (plain.length > maxEchoLength || !/^(?:i|i'm|i’m|i've|i’ve|my|we|our)\b/i.test(plain)) return null
  const sentence = /^[^.!?\n;]+/.exec(plain)?.[0] ?? ''
  return wordsOf(sentence).length < 3 || /\byou/i.test(sentence) ? null : inSecondPerson(sentence)
}

const maxEchoLength = 110

const secondPerson: ReadonlyMap<string, string> = new Map([
  ['i', 'you'],
  ["i'm", 'you are'],
  ["i've", 'you have'],
  ["i'll", 'you will'],
  ["i'd", 'you would'],
  ['my', 'your'],
  ['mine', 'yours'],
  ['me', 'you'],
  ['myself', 'yourself'],
  ['am', 'are'],
  ['we', 'you'],
  ['our', 'your'],
  ['us', 'you'],
  ['you', 'I'],
  ['your', 'my'],
])

/** A sentence of the user in the second person: "I am late" becomes "you are late". */
export function inSecondPerson(sentence: string): string {
  return sentence
    .trim()
    .replace(/(?<![.!?])[.!?]+$/, '')
    .replaceAll('’', "'")
    .replace(/\bI was\b/gi, 'you were')
    .replace(/[\p{L}']+/gu, (word) => secondPerson.get(word.toLowerCase()) ?? word)
}
