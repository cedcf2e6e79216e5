import { type Persona, unnamedUser } from '../../characters/prompt/settings.ts'
import type { Steps } from '../../work.ts'
import type { ComposedParts } from '../model.ts'
import { type Conversation, leaningOf } from './conversation.ts'
import { personalSubject } from './personal.ts'
import { endings, hedges, repetitions } from './phrases.ts'
import { isStatement, recall } from './recall.ts'
import {
  addressed,
  chanceOf,
  narrowToPrompt,
  partOf,
  plainWords,
  type Scene,
  unsaidOf,
  unsaidPhrase,
  varied,
} from './reply-context.ts'
import type { Find } from './search.ts'
import { type SmallTalk, smallTalkOf } from './small-talk.ts'
import { beCivil, deflect, goOn, ownWords, react, standIn } from './stock-replies.ts'
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
  if (card === null) return standIn(persona.name, conversation, seed, choice)
  const name = card.nickname || card.name
  const userName = conversation.givenName ?? (persona.userName === unnamedUser ? null : persona.userName)
  const part = yield* partOf(card)
  const scene = { ...part, ...(yield* narrowToPrompt(part, composition)), conversation, name, userName, seed, choice }
  return addressed(yield* perform(scene, persona), userName)
}

function* perform(scene: Scene, persona: Persona): Steps<string> {
  const { question, action } = scene.conversation
  if (question === '' && action !== '') return yield* react(scene)
  const names = [scene.name, persona.name ?? '', scene.userName ?? '']
  const smallTalk = question === '' ? 'greeting' : (smallTalkOf(question, names) ?? partingIn(question, names))
  const own = smallTalk && (yield* ownWords(scene, smallTalk))
  if (own) return own
  if (smallTalk !== null && smallTalk !== 'who' && smallTalk !== 'help') return yield* beCivil(scene, smallTalk)
  return (yield* recall(scene)) ?? (yield* lookUp(scene, smallTalk))
}

/** Looks up what the prompt tells of the question; without a find, says what is said where there is none. */
function* lookUp(scene: Scene, smallTalk: SmallTalk | null): Steps<string> {
  const finds = yield* findAnswers(scene)
  const [best] = finds
  if (best && best.score >= sureScore) return yield* answer(scene, finds, best)
  if (smallTalk !== null) return yield* beCivil(scene, smallTalk)
  const ofSelf = yield* answerAboutSelf(scene)
  if (ofSelf !== null) return ofSelf
  const isTelling = isStatement(scene.conversation.question)
  const about = isTelling ? undefined : finds.find(({ passage }) => passage.source === 'self')
  if (about && about.score >= selfScore) {
    const [unsaid] = yield* unsaidOf([about.passage.answer], String, scene)
    if (unsaid !== undefined) return unsaid
    if (about.score >= nearScore) return yield* again(scene, about.passage.answer)
  }
  const near = finds.filter(({ score }) => score >= nearScore)
  const [nearest] = yield* unsaidOf(near, ({ passage }) => passage.answer, scene)
  if (!nearest) return yield* deflect(scene)
  return `${yield* unsaidPhrase(scene, hedges, chanceOf(scene), scene.choice)} ${nearest.passage.answer}`
}

/** What a message ends with, if that is a farewell or thanks: "I must sleep now. Good night!" */
function partingIn(question: string, names: readonly string[]): SmallTalk | null {
  const last = /[.!]\s+([^.!?]+[.!]*)$/.exec(question)?.[1]
  const found = last === undefined ? null : smallTalkOf(last, names)
  return found === 'farewell' || found === 'thanks' ? found : null
}

/** What answers the question, best first; a question that leans on the one before it is looked up with that one. */
function* findAnswers(scene: Scene): Steps<readonly Find[]> {
  const { search, answers, passages, keys } = scene
  const { question, previousQuestion } = scene.conversation
  const asked = answers.get(plainWords(question))
  const leaning = leaningIn(scene)
  const scores = new Map(
    leaning === 'wholly' ? [] : (yield* search(question)).map(({ passage, score }) => [passage, score]),
  )
  if (asked && passages.includes(asked)) {
    scores.set(asked, Math.max(sureScore, ...scores.values()))
  } else if (leaning !== 'none') {
    for (const { passage, score } of yield* search(previousQuestion)) {
      scores.set(passage, (scores.get(passage) ?? 0) + shareOfPrevious[leaning] * score)
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
function leaningIn({ conversation }: Scene): 'none' | 'partly' | 'wholly' {
  const { question, previousQuestion } = conversation
  if (previousQuestion === '' || personalSubject(question) !== null) return 'none'
  return leaningOf(question)
}

/** Tells the best answer, or another good one when that was told before; further choices take what is nearly as good. */
function* answer(scene: Scene, finds: readonly Find[], best: Find): Steps<string> {
  const { question } = scene.conversation
  const leansOnPrevious = leaningIn(scene) !== 'none'
  const enough = Math.max(leansOnPrevious ? nearScore : sureScore, goodEnoughInstead * best.score)
  const good = finds.filter(({ score }) => score >= enough)
  const left = yield* unsaidOf(good, ({ passage }) => passage.answer, scene)
  const [chosen] = left
  if (!chosen) {
    if (isStatement(question)) return yield* deflect(scene)
    if (leansOnPrevious) return yield* goOn(scene, yield* unsaidPhrase(scene, endings, chanceOf(scene), scene.choice))
    return yield* again(scene, best.passage.answer)
  }
  const alike = left.filter(({ score }) => score >= nearlyAsGood * chosen.score)
  return varied(
    scene,
    alike.map(({ passage }) => passage.answer),
  )
}

/** Tells what was told before, with a word on it: once in a conversation, and then no more. */
function* again(scene: Scene, text: string): Steps<string> {
  const isSaid = scene.conversation.said.some((said) => repetitions.some((form) => said.startsWith(form)))
  if (isSaid) return yield* goOn(scene, yield* unsaidPhrase(scene, endings, chanceOf(scene), scene.choice))
  return `${yield* unsaidPhrase(scene, repetitions, chanceOf(scene), scene.choice)} ${text}`
}

/** What the character tells of itself, where that is asked; null where it is not, or where the card has nothing of the kind. */
function* answerAboutSelf(scene: Scene): Steps<string | null> {
  const isAnswer = personalSubject(scene.conversation.question)
  const ofSubject = isAnswer === null ? [] : scene.passages.filter(isAnswer)
  if (ofSubject.length === 0) return null
  const left = yield* unsaidOf(ofSubject, ({ answer }) => answer, scene)
  if (left.length === 0) return yield* again(scene, ofSubject[0]?.answer ?? '')
  return varied(
    scene,
    left.slice(0, maxVariants).map(({ answer }) => answer),
  )
}

/** Of the character's own sentences, so many are taken for answers of one kind. */
const maxVariants = 3
