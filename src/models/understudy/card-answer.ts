import type { Persona } from '../../characters/prompt/settings.ts'
import type { Steps } from '../../work.ts'
import { type Conversation, leaningOf } from './conversation.ts'
import { hedges, openings } from './phrases.ts'
import { pick } from './pick.ts'
import { addressed, chanceOf, partOf, plainWords, type Scene, spoken, untold } from './reply-context.ts'
import type { Find } from './search.ts'
import { smallTalkOf } from './small-talk.ts'
import { beCivil, deflect, ownWords, sayNoMore, standIn } from './stock-replies.ts'
import { shortened } from './words.ts'

/** Scores from which a passage is taken for the answer, and from which it is offered as the nearest there is. */
const sureScore = 1.8
const nearScore = 0.85
/** How much of the best score a passage must have to come instead of one that was told already, or as a further choice. */
const goodEnoughInstead = 0.5
const nearlyAsGood = 0.8
/** What the question before counts for one that leans on it. */
const shareOfPrevious = { partly: 0.6, wholly: 1 }

/**
 * What the character says next: from its card by retrieval and, where the card has no words, an honest way out.
 * The same conversation, seed and choice give the same words; choice 0 is the best there is.
 */
export function* act(persona: Persona, conversation: Conversation, seed: number | null, choice: number): Steps<string> {
  const { card } = persona
  if (conversation.toolResult !== null) return `Here is what came back: ${shortened(conversation.toolResult)}`
  if (card === null) return standIn(persona.name, conversation, seed, choice)
  const name = card.nickname || card.name
  const userName = conversation.givenName ?? (persona.userName === unnamedUser ? null : persona.userName)
  const part = yield* partOf(card)
  return addressed(yield* perform({ ...part, conversation, name, userName, seed, choice }), userName)
}

/** How a user is called who gave no name. */
const unnamedUser = 'User'

function* perform(scene: Scene): Steps<string> {
  const { question } = scene.conversation
  const smallTalk = question === '' ? 'greeting' : smallTalkOf(question, [scene.name, scene.userName ?? ''])
  const own = smallTalk && (yield* ownWords(scene, smallTalk))
  if (own) return own
  const finds = smallTalk === null || smallTalk === 'who' || smallTalk === 'help' ? yield* findAnswers(scene) : []
  const [best] = finds
  if (best && best.score >= sureScore) return yield* answer(scene, finds, best)
  if (smallTalk !== null) return yield* beCivil(scene, smallTalk)
  if (!best || best.score < nearScore) return yield* deflect(scene)
  return `${pick(hedges, chanceOf(scene), scene.choice)} ${spoken(best.passage, scene.name)}`
}

/** What answers the question, best first; a question that leans on the one before it is looked up with that one. */
function* findAnswers(scene: Scene): Steps<readonly Find[]> {
  const { search, answers } = scene
  const { question, previousQuestion } = scene.conversation
  const asked = answers.get(plainWords(question))
  if (asked) {
    const others = (yield* search(question)).filter(({ passage }) => passage !== asked)
    return [{ passage: asked, score: Math.max(sureScore, others[0]?.score ?? 0) }, ...others]
  }
  const leaning = previousQuestion === '' ? 'none' : leaningOf(question)
  const finds = leaning === 'wholly' ? [] : yield* search(question)
  if (leaning === 'none') return finds
  const scores = new Map(finds.map(({ passage, score }) => [passage, score]))
  for (const { passage, score } of yield* search(previousQuestion)) {
    scores.set(passage, (scores.get(passage) ?? 0) + shareOfPrevious[leaning] * score)
  }
  return Array.from(scores, ([passage, score]) => ({ passage, score })).sort((one, other) => other.score - one.score)
}

/** Tells the best answer, or another good one when that was told before; further choices take what is nearly as good. */
function* answer(scene: Scene, finds: readonly Find[], best: Find): Steps<string> {
  const { question, previousQuestion } = scene.conversation
  const leansOnPrevious = previousQuestion !== '' && leaningOf(question) !== 'none'
  const enough = Math.max(leansOnPrevious ? nearScore : sureScore, goodEnoughInstead * best.score)
  const good = finds.filter(({ score }) => score >= enough)
  const [chosen, ...rest] = yield* untold(good, ({ passage }) => passage.answer, scene)
  if (!chosen) return leansOnPrevious ? sayNoMore(scene) : `As I said: ${spoken(best.passage, scene.name)}`
  if (scene.choice === 0) return spoken(chosen.passage, scene.name)
  const others = rest.filter(({ score }) => score >= nearlyAsGood * chosen.score)
  const other = others[scene.choice - 1]
  if (other) return spoken(other.passage, scene.name)
  return `${pick(openings, chanceOf(scene), scene.choice)} ${spoken(chosen.passage, scene.name)}`
}
