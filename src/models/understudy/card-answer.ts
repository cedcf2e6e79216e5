import { cardOf } from '../../characters/cards/kept-card.ts'
import { defaultUserName, type Persona } from '../../characters/prompt/settings.ts'
import { spend } from '../../work/fuel.ts'
import type { Passage } from './card-passages.ts'
import { type Conversation, dependenceOf } from './conversation.ts'
import { personalSubject } from './personal.ts'
import { endings, hedges, repetitions } from './phrases.ts'
import { isStatement, recall } from './recall.ts'
import {
  narrowToPrompt,
  type PromptParts,
  pickKeyOf,
  pickVariant,
  plainWords,
  type ReplyContext,
  readCard,
  unsaidOf,
  unsaidPhrase,
  withUserName,
} from './reply-context.ts'
import type { Hit } from './search.ts'
import { type SmallTalk, smallTalkOf } from './small-talk.ts'
import {
  answerFromExamples,
  answerSmallTalk,
  answerWithoutCard,
  continueTalk,
  deflect,
  reactToAction,
} from './stock-replies.ts'
import { userNameMark } from './user-name-mark.ts'
import { fold, shortened } from './words.ts'

/** The minimum score of a passage that answers a question. */
const minAnswerScore = 1.8
/** The minimum score of a passage that is offered as the nearest match, or that answers a follow-up question. */
const minNearScore = 0.85
/**
 * The minimum score of a sentence about the character. It is low, because such a sentence has no user's line that could match.
 */
const minSelfScore = 0.35
/** A good answer has at least this share of the best score. */
const minShareOfBest = 0.5
/** For further choices and other seeds, an answer needs at least this share of the first choice's score. */
const minShareOfChosen = 0.8
/** The weight of matches with the previous question, if the question depends on the previous question. */
const shareOfPrevious = { partly: 0.6, wholly: 1 }

/**
 * Makes the character's replies, one for each choice: a tool's result, small talk, an answer about the conversation, or a passage of the prompt that a
 * search finds. If no passage is an answer, the reply is a stock phrase. The same prompt, seed and choice give the same reply.
 * Without a seed, choice 0 is the best answer.
 */
export function answersAs(
  persona: Persona,
  parts: PromptParts,
  conversation: Conversation,
  seed: number | null,
  count: number,
): readonly string[] {
  const choices = Array.from({ length: count }, (_, choice) => choice)
  const { toolResult } = conversation
  if (toolResult !== null) return choices.map(() => `Here is what came back: ${shortened(toolResult)}`)
  if (persona.card === null) {
    return choices.map((choice) => answerWithoutCard(persona.name, conversation, seed, choice))
  }
  const card = cardOf(persona.card)
  const name = card.nickname || card.name
  const userName = conversation.givenName ?? (persona.userName === defaultUserName ? null : persona.userName)
  const cardRead = readCard(card)
  const context = {
    ...cardRead,
    ...narrowToPrompt(cardRead, parts, conversation.opening.replaceAll(persona.userName, userNameMark)),
    conversation,
    name,
    userName,
    seed,
  }
  return choices.map((choice) => withUserName(answerFromCard({ ...context, choice }, persona), userName))
}

function answerFromCard(context: ReplyContext, persona: Persona): string {
  const { question, action } = context.conversation
  if (question === '' && action !== '') return reactToAction(context)
  const names = [context.name, persona.name ?? '', context.userName ?? '']
  const smallTalk = question === '' ? 'greeting' : (smallTalkOf(question, names) ?? farewellIn(question, names))
  const own = smallTalk && answerFromExamples(context, smallTalk)
  if (own) return own
  if (smallTalk !== null && smallTalk !== 'who' && smallTalk !== 'help') return answerSmallTalk(context, smallTalk)
  return recall(context) ?? lookUp(context, smallTalk)
}

/** Searches the prompt for an answer, and falls back to stock phrases. */
function lookUp(context: ReplyContext, smallTalk: SmallTalk | null): string {
  const hits = findAnswers(context)
  const [best] = hits
  if (best && best.score >= minAnswerScore) return answer(context, hits, best)
  if (smallTalk !== null) return answerSmallTalk(context, smallTalk)
  const ofSelf = answerAboutSelf(context)
  if (ofSelf !== null) return ofSelf
  const isTelling = isStatement(context.conversation.question)
  const about = isTelling ? undefined : hits.find(({ passage }) => passage.source === 'self')
  if (about && about.score >= minSelfScore) {
    const [unsaid] = unsaidOf([about.passage.answer], String, context)
    if (unsaid !== undefined) return unsaid
    if (about.score >= minNearScore) return repeatAnswer(context, about.passage.answer)
  }
  const near = hits.filter(({ score }) => score >= minNearScore)
  const [nearest] = unsaidOf(near, ({ passage }) => passage.answer, context)
  if (!nearest) return deflect(context)
  return `${unsaidPhrase(context, hedges, pickKeyOf(context), context.choice)} ${nearest.passage.answer}`
}

/** The farewell or thanks at the end of a message: "I must sleep now. Good night!" */
function farewellIn(question: string, names: readonly string[]): SmallTalk | null {
  const last = /[.!]\s+([^\s.!?][^.!?]*[.!]*)$/.exec(question)?.[1]
  const found = last === undefined ? null : smallTalkOf(last, names)
  return found === 'farewell' || found === 'thanks' ? found : null
}

/**
 * The passages that match the question, best first. If the question partly depends on the previous question, the search uses both
 * questions. If the question wholly depends on the previous question, the search uses only the previous question.
 */
function findAnswers(context: ReplyContext): readonly Hit[] {
  const { search, answers, passages, keys } = context
  const { question, previousQuestion } = context.conversation
  const asked = answers.get(plainWords(question))
  const dependence = dependenceIn(context)
  const scores = new Map(dependence === 'wholly' ? [] : search(question).map(({ passage, score }) => [passage, score]))
  if (asked && passages.includes(asked)) {
    scores.set(asked, Math.max(minAnswerScore, ...scores.values()))
  } else if (dependence !== 'none') {
    for (const { passage, score } of search(previousQuestion)) {
      scores.set(passage, (scores.get(passage) ?? 0) + shareOfPrevious[dependence] * score)
    }
  }
  // If the question contains a key that fired a lore entry, this entry is meant to answer the question.
  const lower = fold(question)
  for (const [passage, found] of keys) {
    if (found.some((key) => lower.includes(key)))
      scores.set(passage, Math.max(minAnswerScore, scores.get(passage) ?? 0))
  }
  return Array.from(scores, ([passage, score]) => ({ passage, score })).sort(
    (one, other) => other.score - one.score || Number(other.passage === asked) - Number(one.passage === asked),
  )
}

/** How much a question depends on the previous question. A question about the character itself is independent. */
function dependenceIn({ conversation }: ReplyContext): 'none' | 'partly' | 'wholly' {
  const { question, previousQuestion } = conversation
  if (previousQuestion === '' || personalSubject(question) !== null) return 'none'
  return dependenceOf(question)
}

/**
 * Returns the best answer that was not said yet. Further choices and other seeds get answers that are nearly as good. If all good
 * answers were said, returns a stock phrase, or repeats the best answer.
 */
function answer(context: ReplyContext, hits: readonly Hit[], best: Hit): string {
  const { question } = context.conversation
  const dependsOnPrevious = dependenceIn(context) !== 'none'
  const enough = Math.max(dependsOnPrevious ? minNearScore : minAnswerScore, minShareOfBest * best.score)
  const good = hits.filter(({ score }) => score >= enough)
  const left = unsaidOf(good, ({ passage }) => passage.answer, context)
  const [chosen] = left
  if (!chosen) {
    if (isStatement(question)) return deflect(context)
    if (dependsOnPrevious)
      return continueTalk(context, unsaidPhrase(context, endings, pickKeyOf(context), context.choice))
    return repeatAnswer(context, best.passage.answer)
  }
  const alike = left.filter(({ score }) => score >= minShareOfChosen * chosen.score)
  return pickVariant(
    context,
    alike.map(({ passage }) => passage.answer),
  )
}

/** Repeats an answer after a phrase such as "As I said:", but only once in a conversation. */
function repeatAnswer(context: ReplyContext, text: string): string {
  const isSaid = context.conversation.said.some((said) => repetitions.some((form) => said.startsWith(form)))
  if (isSaid) return continueTalk(context, unsaidPhrase(context, endings, pickKeyOf(context), context.choice))
  return `${unsaidPhrase(context, repetitions, pickKeyOf(context), context.choice)} ${text}`
}

/**
 * The card's answer to a common question about a person, such as the age. Null for other questions, and if the card has no
 * answer.
 */
function answerAboutSelf(context: ReplyContext): string | null {
  const isAnswer = personalSubject(context.conversation.question)
  if (isAnswer === null) return null
  const ofSubject: Passage[] = []
  for (const passage of context.passages) {
    if (isAnswer(passage)) ofSubject.push(passage)
    spend(unitsOfPassage + (passage.answer.length + passage.cue.length) * unitsOfLetter)
  }
  if (ofSubject.length === 0) return null
  const left = unsaidOf(ofSubject, ({ answer }) => answer, context)
  if (left.length === 0) return repeatAnswer(context, ofSubject[0]?.answer ?? '')
  return pickVariant(
    context,
    left.slice(0, maxVariants).map(({ answer }) => answer),
  )
}

/** Units of work for each passage that may be about the character, and for each of its letters. */
const unitsOfPassage = 50
const unitsOfLetter = 10

/** The most sentences about the character that count as equally good answers. */
const maxVariants = 3
