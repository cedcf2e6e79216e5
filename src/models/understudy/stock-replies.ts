import type { Steps } from '../../work.ts'
import { userNameMark } from './card-passages.ts'
import { type Conversation, nounOf } from './conversation.ts'
import * as phrases from './phrases.ts'
import { pick } from './pick.ts'
import { chanceOf, type Scene, spoken, untold } from './reply-context.ts'
import { isMisleading, moodOf, type SmallTalk, smallTalkOf } from './small-talk.ts'
import { shortened } from './words.ts'

/** What the card's examples answer to small talk of this kind, if that was not said yet. */
export function* ownWords(scene: Scene, smallTalk: SmallTalk): Steps<string | null> {
  if (smallTalk === 'greeting' || smallTalk === 'nature') return null
  const answers = (scene.civilities.get(smallTalk) ?? [])
    .map(({ answer }) => answer)
    .filter((answer) => smallTalk !== 'introduction' || answer.includes(userNameMark))
  const own = yield* untold(answers, String, scene)
  const [first] = own
  if (first === undefined) return null
  return own[scene.choice] ?? `${pick(phrases.openings, chanceOf(scene), scene.choice)} ${first}`
}

/** Answers what is said for politeness, and who it is that answers. */
export function* beCivil(scene: Scene, smallTalk: SmallTalk): Steps<string> {
  const { name, material } = scene
  switch (smallTalk) {
    case 'greeting':
      return yield* greet(scene)
    case 'introduction':
      return welcome(scene)
    case 'thanks':
    case 'farewell':
    case 'well-being':
    case 'help':
      return pick(phrases.civilities[smallTalk], chanceOf(scene), scene.choice)?.(userNameMark) ?? ''
    case 'joke':
      return `I know none that would bear telling. ${pointer(scene)}`.trim()
    case 'nature':
      return `This is the understudy, playing ${name}: every word comes from the character's card. ${pointer(scene)}`.trim()
    case 'who': {
      const told = material.passages.find(({ aboutCharacter }) => aboutCharacter)
      return `I am ${name}. ${told ? spoken(told, name) : pointer(scene)}`.trim()
    }
  }
}

/** Greets somebody by the name just given: with a greeting of the card at the beginning, if one has the name in it. */
function welcome(scene: Scene): string {
  const { material, conversation, choice, name } = scene
  const greetings = material.greetings.filter((greeting) => greeting.includes(userNameMark))
  const greeting = conversation.said.length === 0 ? greetings[choice % greetings.length] : undefined
  return greeting ?? `Good to meet you, ${userNameMark}. I am ${name}.`
}

/** A greeting of the card that was not said yet: the first one, or as many further as seed and choice say. */
function* greet(scene: Scene): Steps<string> {
  const { material, seed, choice, name, conversation } = scene
  const greetings = yield* untold(material.greetings, String, scene)
  const greeting = greetings[(Math.abs(seed ?? 0) + choice) % greetings.length]
  if (greeting !== undefined) return greeting
  const opening = conversation.said.length > 0 ? 'Hello again' : 'Hello'
  return `${opening}, ${userNameMark}. I am ${name}. ${pointer(scene)}`.trim()
}

/** Says that there is no answer, and points to what there is an answer to. */
export function* deflect(scene: Scene): Steps<string> {
  const { choice, conversation } = scene
  const chance = chanceOf(scene)
  const mood = moodOf(conversation.question)
  if (mood === 'sorrow') return pick(phrases.sympathies, chance, choice) ?? ''
  if (mood === 'help')
    return (yield* ownWords(scene, 'help')) ?? `${pick(phrases.refusals, chance, choice)} ${pointer(scene)}`.trim()
  const bare = { request: phrases.refusals, opinion: phrases.indifferences }
  if (mood !== null) return `${pick(bare[mood], chance, choice)} ${pointer(scene)}`.trim()
  const topic = offerableTopic(conversation.question)
  const deflection = topic && pick(phrases.deflections, chance, choice)?.(topic)
  return `${deflection || pick(phrases.bareDeflections, chance, choice)} ${pointer(scene)}`.trim()
}

/** Says that there is no more to be told of what the user asked before. */
export function sayNoMore(scene: Scene): string {
  return `That is all I can tell you about it. ${pointer(scene)}`.trim()
}

/** Points to something that there is an answer to; empty when the card has nothing that can be named. */
function pointer(scene: Scene): string {
  const { choice, material, questions } = scene
  const chance = `pointer/${chanceOf(scene)}`
  const topics = material.passages.flatMap(({ topic }) => (topic === null ? [] : inSentence(topic)))
  const topic = pick(topics, `topic/${chance}`, choice)
  if (topic !== undefined) return pick(phrases.pointersToTopic, chance, choice)?.(topic) ?? ''
  const question = pick(questions, `topic/${chance}`, choice)
  return (question !== undefined && pick(phrases.pointersToQuestion, chance, choice)?.(question)) || ''
}

/** Says who stands in, and what was asked, when there is no card to play from. */
export function standIn(name: string | null, conversation: Conversation, seed: number | null, choice: number): string {
  const { question } = conversation
  if (isMisleading(question) || smallTalkOf(question, []) === 'nature') {
    const whom = name === null || isMisleading(name) ? '' : `, in for ${name}`
    return `This is the understudy${whom}: a stand-in that plays characters from their cards.`
  }
  const asked = shortened(question) || '…'
  const chance = chanceOf({ seed, conversation })
  if (name === null) return pick(phrases.standIns, chance, choice)?.(asked) ?? ''
  return pick(phrases.namedStandIns, chance, choice)?.(name, asked) ?? ''
}

/** The noun that a question turns on, at the head of a sentence, unless it had better not be repeated. */
function offerableTopic(question: string): string | null {
  const noun = nounOf(question)
  if (noun === null || isMisleading(noun)) return null
  return `${noun.charAt(0).toUpperCase()}${noun.slice(1)}`
}

/** A title as it stands within a sentence. */
function inSentence(title: string): string {
  return /^(?:the|an?|how|why|when|where|what|who|my|our|some|about|\w+ing)\b/i.test(title)
    ? `${title.charAt(0).toLowerCase()}${title.slice(1)}`
    : title
}
