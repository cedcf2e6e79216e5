import { type Persona, unnamedUser } from '../../characters/prompt/settings.ts'
import type { Steps } from '../../work.ts'
import type { ComposedParts } from '../model.ts'
import { type Conversation, dependenceOf } from './conversation.ts'
import { personalSubject } from './personal.ts'
import { endings, hedges, repetitions } from './phrases.ts'
import { isStatement, recall } from './recall.ts'
import {
  narrowToPrompt,
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
import { fold, shortened } from './words.ts'

/** Scores from which a passage is taken for the answer, and from which it is offered as the nearest there is. */
const sureScore = 1.8
const nearScore = 0.85
/** The same for a sentence about the character, which has no question that it answers. */
const selfScore = 0.35
/** How much of the best score a passage must have to come instead of one that was told already, or as a further choice. */
const goodEnoughInstead = 0.5
const nearlyAsGood = 0.8
/** What the question before counts for one that leans on it. */
const shareOfPrevious = { partly: 0.6, wholly: 1 }

/**
 * What the character says next: of what the prompt tells by retrieval and, where that has no words, an honest way out.
 * The same prompt, seed and choice give the same words; without a seed, choice 0 is the best there is.
 */
export function* answerAs(
  persona: Persona,
  composition: ComposedParts | undefined,
  conversation: Conversation,
  seed: number | null,
  choice: number,
): Steps<string> {
  const { card } = persona
  if (conversation.toolResult !== null) return `Here is what came back: ${shortened(conversation.toolResult)}`
  if (card === null) return answerWithoutCard(persona.name, conversation, seed, choice)
  const name = card.nickname || card.name
  const userName = conversation.givenName ?? (persona.userName === unnamedUser ? null : persona.userName)
  const cardRead = yield* readCard(card)
  const context = {
    ...cardRead,
    ...(yield* narrowToPrompt(cardRead, composition)),
    conversation,
    name,
    userName,
    seed,
    choice,
  }
  return withUserName(yield* answerFromCard(context, persona), userName)
}

function* answerFromCard(context: ReplyContext, persona: Persona): Steps<string> {
  const { question, action } = context.conversation
  if (question === '' && action !== '') return yield* reactToAction(context)
  const names = [context.name, persona.name ?? '', context.userName ?? '']
  const smallTalk = question === '' ? 'greeting' : (smallTalkOf(question, names) ?? partingIn(question, names))
  const own = smallTalk && (yield* answerFromExamples(context, smallTalk))
  if (own) return own
  if (smallTalk !== null && smallTalk !== 'who' && smallTalk !== 'help')
    return yield* answerSmallTalk(context, smallTalk)
  return (yield* recall(context)) ?? (yield* lookUp(context, smallTalk))
}

/** Looks up what the prompt tells of the question; without a find, says what is said where there is none. */
function* lookUp(context: ReplyContext, smallTalk: SmallTalk | null): Steps<string> {
  const hits = yield* findAnswers(context)
  const [best] = hits
  if (best && best.score >= sureScore) return yield* answer(context, hits, best)
  if (smallTalk !== null) return yield* answerSmallTalk(context, smallTalk)
  const ofSelf = yield* answerAboutSelf(context)
  if (ofSelf !== null) return ofSelf
  const isTelling = isStatement(context.conversation.question)
  const about = isTelling ? undefined : hits.find(({ passage }) => passage.source === 'self')
  if (about && about.score >= selfScore) {
    const [unsaid] = yield* unsaidOf([about.passage.answer], String, context)
    if (unsaid !== undefined) return unsaid
    if (about.score >= nearScore) return yield* repeatAnswer(context, about.passage.answer)
  }
  const near = hits.filter(({ score }) => score >= nearScore)
  const [nearest] = yield* unsaidOf(near, ({ passage }) => passage.answer, context)
  if (!nearest) return yield* deflect(context)
  return `${yield* unsaidPhrase(context, hedges, pickKeyOf(context), context.choice)} ${nearest.passage.answer}`
}

/** What a message ends with, if that is a farewell or thanks: "I must sleep now. Good night!" */
function partingIn(question: string, names: readonly string[]): SmallTalk | null {
  const last = /[.!]\s+([^.!?]+[.!]*)$/.exec(question)?.[1]
  const found = last === undefined ? null : smallTalkOf(last, names)
  return found === 'farewell' || found === 'thanks' ? found : null
}

/** What answers the question, best first; a question that leans on the one before it is looked up with that one. */
function* findAnswers(context: ReplyContext): Steps<readonly Hit[]> {
  const { search, answers, passages, keys } = context
  const { question, previousQuestion } = context.conversation
  const asked = answers.get(plainWords(question))
  const dependence = dependenceIn(context)
  const scores = new Map(
    dependence === 'wholly' ? [] : (yield* search(question)).map(({ passage, score }) => [passage, score]),
  )
  if (asked && passages.includes(asked)) {
    scores.set(asked, Math.max(sureScore, ...scores.values()))
  } else if (dependence !== 'none') {
    for (const { passage, score } of yield* search(previousQuestion)) {
      scores.set(passage, (scores.get(passage) ?? 0) + shareOfPrevious[dependence] * score)
    }
  }
  // What the question itself has called up is meant to answer it.
  const lower = fold(question)
  for (const [passage, found] of keys) {
    if (found.some((key) => lower.includes(key))) scores.set(passage, Math.max(sureScore, scores.get(passage) ?? 0))
  }
  return Array.from(scores, ([passage, score]) => ({ passage, score })).sort(
    (one, other) => other.score - one.score || Number(other.passage === asked) - Number(one.passage === asked),
  )
}

/** How much a question leans on the one before; one about the character itself does not. */
function dependenceIn({ conversation }: ReplyContext): 'none' | 'partly' | 'wholly' {
  const { question, previousQuestion } = conversation
  if (previousQuestion === '' || personalSubject(question) !== null) return 'none'
  return dependenceOf(question)
}

/** Tells the best answer, or another good one when that was told before; further choices take what is nearly as good. */
function* answer(context: ReplyContext, hits: readonly Hit[], best: Hit): Steps<string> {
  const { question } = context.conversation
  const dependsOnPrevious = dependenceIn(context) !== 'none'
  const enough = Math.max(dependsOnPrevious ? nearScore : sureScore, goodEnoughInstead * best.score)
  const good = hits.filter(({ score }) => score >= enough)
  const left = yield* unsaidOf(good, ({ passage }) => passage.answer, context)
  const [chosen] = left
  if (!chosen) {
    if (isStatement(question)) return yield* deflect(context)
    if (dependsOnPrevious)
      return yield* continueTalk(context, yield* unsaidPhrase(context, endings, pickKeyOf(context), context.choice))
    return yield* repeatAnswer(context, best.passage.answer)
  }
  const alike = left.filter(({ score }) => score >= nearlyAsGood * chosen.score)
  return pickVariant(
    context,
    alike.map(({ passage }) => passage.answer),
  )
}

/** Tells what was told before, with a word on it: once in a conversation, and then no more. */
function* repeatAnswer(context: ReplyContext, text: string): Steps<string> {
  const isSaid = context.conversation.said.some((said) => repetitions.some((form) => said.startsWith(form)))
  if (isSaid)
    return yield* continueTalk(context, yield* unsaidPhrase(context, endings, pickKeyOf(context), context.choice))
  return `${yield* unsaidPhrase(context, repetitions, pickKeyOf(context), context.choice)} ${text}`
}

/** What the character tells of itself, where that is asked; null where it is not, or where the card has nothing of the kind. */
function* answerAboutSelf(context: ReplyContext): Steps<string | null> {
  const isAnswer = personalSubject(context.conversation.question)
  const ofSubject = isAnswer === null ? [] : context.passages.filter(isAnswer)
  if (ofSubject.length === 0) return null
  const left = yield* unsaidOf(ofSubject, ({ answer }) => answer, context)
  if (left.length === 0) return yield* repeatAnswer(context, ofSubject[0]?.answer ?? '')
  return pickVariant(
    context,
    left.slice(0, maxVariants).map(({ answer }) => answer),
  )
}

/** Of the character's own sentences, so many are taken for answers of one kind. */
const maxVariants = 3
