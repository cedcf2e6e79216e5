import type { Passage } from './card-passages.ts'
import { type Conversation, introducedName, nounOf } from './conversation.ts'
import { capitalised } from './first-person.ts'
import * as phrases from './phrases.ts'
import { pick } from './pick.ts'
import { echoOf, isStatement } from './recall.ts'
import { pickKeyOf, pickVariant, type ReplyContext, unsaidOf, unsaidPhrase, variantOf } from './reply-context.ts'
import { isMisleading, moodOf, type SmallTalk, smallTalkOf } from './small-talk.ts'
import { userNameMark } from './user-name-mark.ts'
import { shortened } from './words.ts'

/**
 * An answer from the card's examples to this kind of small talk that was not said yet. Null if there is none, and for the kinds
 * `greeting`, `nature` and `assent`. The answer to an introduction must contain the user's name.
 */
export function answerFromExamples(context: ReplyContext, smallTalk: SmallTalk): string | null {
  if (smallTalk === 'greeting' || smallTalk === 'nature' || smallTalk === 'assent') return null
  const answers = (context.smallTalk.get(smallTalk) ?? [])
    .filter((passage) => context.passages.includes(passage))
    .map(({ answer }) => answer)
    .filter((answer) => smallTalk !== 'introduction' || answer.includes(userNameMark))
  const own = unsaidOf(answers, String, context)
  if (own.length === 0) return null
  return pickVariant(context, own)
}

/** Answers small talk, and questions about the character's identity. */
export function answerSmallTalk(context: ReplyContext, smallTalk: SmallTalk): string {
  const { name } = context
  const stock = (list: readonly string[]) =>
    unsaidPhrase(context, list, pickKeyOf(context), variantOf(context, 1)).replace('%', () => name)
  switch (smallTalk) {
    case 'nature':
      return stock(phrases.natures)
    case 'assent':
      return continueTalk(context, '')
    case 'who': {
      const [ownFact] = unsaidOf(context.passages.filter(isOfSelf), ({ answer }) => answer, context)
      const [isNew] = unsaidOf([`I am ${name}`], String, context)
      if (!ownFact) return isNew ? `I am ${name}.` : `I am still ${name}. ${stock(phrases.questionsBack)}`
      return isNew && !ownFact.answer.startsWith(`I am ${name}`) ? `I am ${name}. ${ownFact.answer}` : ownFact.answer
    }
    default:
      return stock(phrases.civilities[smallTalk])
  }
}

function isOfSelf({ source }: Passage): boolean {
  return source === 'self'
}

/** Answers an action without words with an action of the character. If the user does not leave, the talk then continues. */
export function reactToAction(context: ReplyContext): string {
  const { action } = context.conversation
  const kind = /\b(?:hug|kiss|pat|cuddle|hold|stroke|embrace|caress|take)\w*\b/i.test(action)
    ? 'affection'
    : /\b(?:hit|slap|punch|kick|stab|attack|shoot|shove|push|throw|strike)\w*\b/i.test(action)
      ? 'violence'
      : /^(?:leaves?|exits?)\b|\b(?:walk|go|turn)\w* (?:away|out|off|home)\b/i.test(action)
        ? 'farewell'
        : 'other'
  const own = kind === 'other' ? unsaidOf(context.material.actions, String, context) : []
  const stock = unsaidPhrase(context, phrases.reactions[kind], pickKeyOf(context), variantOf(context, 1))
  const deed = pick(own, pickKeyOf(context), context.choice) ?? stock
  return kind === 'farewell' ? deed : continueTalk(context, deed)
}

/**
 * Answers a message that the card does not answer: shares a feeling, repeats a statement of the user, or says that there is no
 * answer. Most of these replies continue with a passage of the character.
 */
export function deflect(context: ReplyContext): string {
  const { choice, conversation } = context
  const { question } = conversation
  const key = pickKeyOf(context)
  const say = (list: readonly string[], filling = '') =>
    capitalised(unsaidPhrase(context, list, key, choice).replace('%', () => filling))
  const mood = moodOf(question)
  if (mood === 'sorrow') return say(phrases.sympathies)
  if (mood === 'joy') return say(phrases.joys)
  if (mood === 'help') {
    return answerFromExamples(context, 'help') ?? continueTalk(context, say(phrases.refusals))
  }
  if (mood === 'request') return continueTalk(context, say(phrases.refusals))
  const echo = isStatement(question) ? echoOf(question) : null
  if (echo !== null && !isMisleading(echo)) return `${say(phrases.echoes, echo)} ${say(phrases.invitations)}`
  if (mood === 'opinion') return continueTalk(context, say(phrases.indifferences))
  if (isStatement(question)) return continueTalk(context, '')
  const topic = offerableTopic(question)
  return continueTalk(context, topic === null ? say(phrases.bareDeflections) : say(phrases.deflections, topic))
}

/**
 * The minimum number of turns before the first pointer to a topic, and between two pointers. A character that suggests topics
 * again and again seems to have nothing to say.
 */
const turnsBeforePointers = 3
const turnsBetweenPointers = 7

/** Continues after a few words: with an unsaid passage, a pointer to a topic, an earlier statement of the user, or a question. */
export function continueTalk(context: ReplyContext, words: string): string {
  const key = `on/${pickKeyOf(context)}`
  const ofCardAndLore = context.passages.filter(({ source }) => typeof source === 'string' || 'entry' in source)
  const facts = unsaidOf(ofCardAndLore, ({ answer }) => answer, context)
  const fact = facts[variantOf(context, Math.min(facts.length, maxVariants)) % facts.length]
  const pointer = (words !== '' && pick([true, false, false], key, context.choice)) || !fact ? pointerOf(context) : ''
  if (pointer !== '') return `${words} ${pointer}`.trim()
  const back = fact ? null : returnToUser(context)
  if (back !== null) return `${words} ${back}`.trim()
  if (!fact || (words !== '' && pick([true, false, false], `ask/${key}`, context.choice))) {
    return `${words} ${unsaidPhrase(context, phrases.questionsBack, key, context.choice)}`.trim()
  }
  const isLore = typeof fact.source === 'object'
  const link = isLore || words === '' ? '' : unsaidPhrase(context, phrases.continuations, key, context.choice)
  return [words, link, fact.answer].filter((each) => each !== '').join(' ')
}

const maxVariants = 3

/**
 * Comes back to an earlier statement of the user, only once for each statement. Null if there is none, or if the last message is
 * a statement.
 */
function returnToUser(context: ReplyContext): string | null {
  const { earlier, question, said } = context.conversation
  const statements = new Set(
    earlier
      .slice(0, -1)
      .filter(isNews)
      .flatMap((text) => echoOf(text) ?? []),
  )
  const isKnown = (echo: string) =>
    said.some((text) => phrases.returns.some((form) => text.includes(form.replace('%', () => echo))))
  const echo = [...statements].findLast((each) => !isMisleading(each) && !isKnown(each))
  if (echo === undefined || isStatement(question)) return null
  return unsaidPhrase(context, phrases.returns, pickKeyOf(context), context.choice).replace('%', () => echo)
}

function isNews(text: string): boolean {
  return isStatement(text) && introducedName(text) === null
}

/** A pointer to a topic that an example answers; empty in the first turns, after a recent pointer, and if no topic is left. */
function pointerOf(context: ReplyContext): string {
  const { conversation, choice, passages } = context
  const forms = phrases.pointers.map((form) => form.split('%'))
  const pointed = conversation.said.map((text) =>
    forms.flatMap(([before = '', after = '']) => {
      const start = text.indexOf(before)
      const end = start < 0 ? -1 : text.indexOf(after, start + before.length)
      return end < 0 ? [] : text.slice(start + before.length, end)
    }),
  )
  if (conversation.said.length < turnsBeforePointers) return ''
  if (pointed.slice(-(turnsBetweenPointers - 1)).some((topics) => topics.length > 0)) return ''
  const known = new Set(pointed.flat())
  const examples = passages.filter(({ source }) => typeof source === 'object' && 'block' in source)
  const left = unsaidOf(examples, ({ answer }) => answer, context)
  const topics = left.flatMap(({ cue }) => {
    const noun = cue.length > maxTopicCueLength || smallTalkOf(cue, [context.name]) !== null ? null : nounOf(cue)
    return noun !== null && /^(?:the|an?) /.test(noun) && !known.has(noun) && !isMisleading(noun) ? noun : []
  })
  const topic = pick(topics, `topic/${pickKeyOf(context)}`, choice)
  if (topic === undefined) return ''
  return unsaidPhrase(context, phrases.pointers, pickKeyOf(context), choice).replace('%', () => topic)
}

/** Longest line from which a topic is taken. */
const maxTopicCueLength = 200

/** Says that an understudy answers without a card, and repeats the question. A question about neural models is not repeated. */
export function answerWithoutCard(
  name: string | null,
  conversation: Conversation,
  seed: number | null,
  choice: number,
): string {
  const question = conversation.question || conversation.action
  if (isMisleading(question) || smallTalkOf(question, []) === 'nature') {
    const whom = name === null || isMisleading(name) ? '' : `, in for ${name}`
    return `This is the understudy${whom}: a stand-in that plays characters from their cards.`
  }
  const asked = shortened(question) || '…'
  const key = pickKeyOf({ seed, conversation })
  if (name === null) return pick(phrases.standIns, key, choice)?.(asked) ?? ''
  return pick(phrases.namedStandIns, key, choice)?.(name, asked) ?? ''
}

/** The main noun of a question, as the start of a sentence; null if there is none, or if it must not be repeated. */
function offerableTopic(question: string): string | null {
  const noun = nounOf(question)
  return noun === null || isMisleading(noun) ? null : capitalised(noun)
}
