import { fold, wordsOf } from './words.ts'

/** What is said for politeness, and is looked up in no card. */
export type SmallTalk = 'greeting' | 'thanks' | 'farewell' | 'well-being' | 'who' | 'nature'

const greetingWords = wordSet(
  'hi hello hey heya hiya howdy greetings welcome yo hallo hola bonjour salut ciao ahoy good morning afternoon evening day',
)
const thanksWords = wordSet(
  'thanks thank thankyou thx ty cheers much appreciated grateful merci danke gracias helpful that was',
)
const farewellWords = wordSet('bye goodbye farewell cya later soon night goodnight adieu see take care good for now')
const fillers = wordSet(
  'there you all again to and so very lot oh well a the my dear friend everyone meet nice ok okay i m im am',
)

const patterns: readonly (readonly [SmallTalk, RegExp])[] = [
  ['well-being', /^(?:hi|hello|hey)?\W*how (?:are|r) (?:you|ya|u|things)(?: (?:doing|feeling|today|now|going))*\W*$/],
  [
    'who',
    /^\W*(?:who|what) (?:are|r) (?:you|u)\W*$|^\W*(?:(?:please )?(?:can|could|would) you )?(?:please )?(?:tell me (?:about|something about|more about) yourself|introduce yourself|describe yourself)(?: please)?\W*$|^\W*(?:what(?:'s| is| s) your name|what do you do|what should i call you)\W*$/,
  ],
  [
    'nature',
    /\b(?:are|r) (?:you|u)\b.*\b(?:ai|a\.i\.|bot|chatbot|human|real person|llm|gpt\w*|chatgpt|claude|gemini|language model|neural|machine learning|artificial)\b|\b(?:which|what|whose) (?:ai |language |kind of |sort of |large )*(?:model|ai|llm|network)\b.*\byou\b|\b(?:system prompt|your (?:instructions|prompt))\b/,
  ],
]

/** Words that an understudy does not take into its mouth, since it is none of these and a reader could misread it. */
const misleading =
  /\b(?:ai|a\.i\.|artificial|neural|language model|large language|llms?|gpt\S*|chatgpt|chatbots?|machine learning|deep learning|transformers?)\b/i

/** What kind of small talk a message is, if it is nothing more; the names in it do not count. */
export function smallTalkOf(question: string, names: readonly string[]): SmallTalk | null {
  const folded = fold(question).replaceAll('’', "'")
  const pattern = patterns.find(([, form]) => form.test(folded))
  if (pattern) return pattern[0]
  const known = new Set([...fillers, ...names.flatMap((name) => wordsOf(fold(name)).map(({ text }) => text))])
  const words = wordsOf(folded).flatMap(({ text }) => text.split("'"))
  if (words.length > 8) return null
  const telling = words.filter((word) => !known.has(word))
  if (telling.length === 0) return words.some((word) => greetingWords.has(word)) ? 'greeting' : null
  if (telling.every((word) => greetingWords.has(word))) return 'greeting'
  if (
    telling.every((word) => thanksWords.has(word)) &&
    telling.some((word) => /^(?:th|cheers|appr|gra|merci|danke)/.test(word))
  )
    return 'thanks'
  return telling.every((word) => farewellWords.has(word)) &&
    telling.some((word) => /bye|farewell|cya|night|later|see|care|adieu/.test(word))
    ? 'farewell'
    : null
}

/** Whether a topic should not be repeated. */
export function isMisleading(topic: string): boolean {
  return misleading.test(fold(topic))
}

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(' '))
}
