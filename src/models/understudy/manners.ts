import { pick } from './chance.ts'
import { type Conversation, topicOf } from './conversation.ts'
import { userNameMark } from './material.ts'
import * as phrases from './phrases.ts'
import { chanceOf, type Scene, spoken, wasSaid } from './scene.ts'
import { isMisleading, type SmallTalk, smallTalkOf } from './small-talk.ts'
import { shortened } from './words.ts'

/** Answers what is said for politeness, and who it is that answers. */
export function beCivil(scene: Scene, smallTalk: SmallTalk): string {
  const { name, material } = scene
  switch (smallTalk) {
    case 'greeting':
      return greet(scene)
    case 'thanks':
      return `You are welcome, ${userNameMark}. ${pointer(scene)}`.trim()
    case 'farewell':
      return `Goodbye, ${userNameMark}. Come again.`
    case 'well-being':
      return `Well enough, thank you, ${userNameMark}. ${pointer(scene)}`.trim()
    case 'nature':
      return `This is the understudy, playing ${name}: every word comes from the character's card. ${pointer(scene)}`.trim()
    case 'who': {
      const told = material.passages.find(({ aboutCharacter }) => aboutCharacter)
      return `I am ${name}. ${told ? spoken(told) : pointer(scene)}`.trim()
    }
  }
}

/** A greeting of the card that was not said yet: the first one, or as many further as seed and choice say. */
function greet(scene: Scene): string {
  const { material, seed, choice, name, conversation } = scene
  const greetings = material.greetings.filter((greeting) => !wasSaid(greeting, scene))
  const greeting = greetings[(Math.abs(seed ?? 0) + choice) % greetings.length]
  if (greeting !== undefined) return greeting
  const opening = conversation.said.length > 0 ? 'Hello again' : 'Hello'
  return `${opening}, ${userNameMark}. I am ${name}. ${pointer(scene)}`.trim()
}

/** Says that there is no answer, names what was asked, and points to what there is an answer to. */
export function deflect(scene: Scene): string {
  const { choice, conversation } = scene
  const topic = offerableTopic(conversation.question)
  const deflection = topic && pick(phrases.deflections, chanceOf(scene), choice)?.(topic)
  return `${deflection || pick(phrases.bareDeflections, chanceOf(scene), choice)} ${pointer(scene)}`.trim()
}

/** Says that there is no more to be told of what the user asked before. */
export function sayNoMore(scene: Scene): string {
  const topic = offerableTopic(scene.conversation.previousQuestion)
  return `That is all I can tell you${topic ? ` of “${topic}”` : ''}. ${pointer(scene)}`.trim()
}

/** Points to something that there is an answer to; empty when the card has nothing that can be named. */
function pointer(scene: Scene): string {
  const { choice, material } = scene
  const chance = `pointer/${chanceOf(scene)}`
  const topics = material.passages.flatMap(({ topic }) => topic ?? [])
  const topic = pick(topics, `topic/${chance}`, choice)
  if (topic !== undefined) return pick(phrases.pointersToTopic, chance, choice)?.(topic) ?? ''
  const questions = material.passages.map(({ cue }) => cue).filter((cue) => /^[^\n]{1,80}$/.test(cue))
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

/** What the question is about, unless it had better not be repeated. */
export function offerableTopic(question: string): string | null {
  const topic = topicOf(question)
  return topic === null || isMisleading(topic) ? null : topic
}
