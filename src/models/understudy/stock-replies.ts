import type { Steps } from '../../work.ts'
import type { Passage } from './card-passages.ts'
import { type Conversation, introducedName, nounOf } from './conversation.ts'
import { capitalised } from './first-person.ts'
import * as phrases from './phrases.ts'
import { pick } from './pick.ts'
import { echoOf, isStatement } from './recall.ts'
import { chanceOf, type Scene, unsaidOf, unsaidPhrase, variantOf, varied } from './reply-context.ts'
import { isMisleading, moodOf, type SmallTalk, smallTalkOf } from './small-talk.ts'
import { userNameMark } from './user-name-mark.ts'
import { shortened } from './words.ts'

/** What the card's examples answer to small talk of this kind, if that was not said yet. */
export function* ownWords(scene: Scene, smallTalk: SmallTalk): Steps<string | null> {
  if (smallTalk === 'greeting' || smallTalk === 'nature' || smallTalk === 'assent') return null
  const answers = (scene.civilities.get(smallTalk) ?? [])
    .filter((passage) => scene.passages.includes(passage))
    .map(({ answer }) => answer)
    .filter((answer) => smallTalk !== 'introduction' || answer.includes(userNameMark))
  const own = yield* unsaidOf(answers, String, scene)
  if (own.length === 0) return null
  return varied(scene, own)
}

/** Answers what is said for politeness or out of a feeling, and who it is that answers. */
export function* beCivil(scene: Scene, smallTalk: SmallTalk): Steps<string> {
  const { name } = scene
  const stock = function* (list: readonly string[]) {
    return (yield* unsaidPhrase(scene, list, chanceOf(scene), variantOf(scene, 1))).replace('%', () => name)
  }
  switch (smallTalk) {
    case 'greeting':
    case 'introduction': {
      const greeting = yield* cardGreeting(scene, smallTalk === 'introduction')
      return greeting ?? (yield* stock(phrases.civilities[smallTalk]))
    }
    case 'nature':
      return yield* stock(phrases.natures)
    case 'assent':
      return yield* goOn(scene, '')
    case 'who': {
      const [ownFact] = yield* unsaidOf(scene.passages.filter(isOfSelf), ({ answer }) => answer, scene)
      const [isNew] = yield* unsaidOf([`I am ${name}`], String, scene)
      if (!ownFact) return isNew ? `I am ${name}.` : `I am still ${name}. ${yield* stock(phrases.questionsBack)}`
      return isNew && !ownFact.answer.startsWith(`I am ${name}`) ? `I am ${name}. ${ownFact.answer}` : ownFact.answer
    }
    default:
      return yield* stock(phrases.civilities[smallTalk])
  }
}

function isOfSelf({ source }: Passage): boolean {
  return source === 'self'
}

/** A greeting of the card that was not said yet: the first, or as many further as seed and choice say; null for none. */
function* cardGreeting(scene: Scene, hasName: boolean): Steps<string | null> {
  const { material, conversation } = scene
  if (hasName && conversation.said.length > 0) return null
  const fitting = material.greetings.filter((greeting) => !hasName || greeting.includes(userNameMark))
  const greetings = yield* unsaidOf(fitting, String, scene)
  return greetings[variantOf(scene, greetings.length) % greetings.length] ?? null
}

/** Answers what is done, and nothing said with it: with a deed of the character's own, and something more. */
export function* react(scene: Scene): Steps<string> {
  const { action } = scene.conversation
  const kind = /\b(?:hug|kiss|pat|cuddle|hold|stroke|embrace|caress|take)\w*\b/i.test(action)
    ? 'affection'
    : /\b(?:hit|slap|punch|kick|stab|attack|shoot|shove|push|throw|strike)\w*\b/i.test(action)
      ? 'violence'
      : /^(?:leaves?|exits?)\b|\b(?:walk|go|turn)\w* (?:away|out|off|home)\b/i.test(action)
        ? 'farewell'
        : 'other'
  const own = kind === 'other' ? yield* unsaidOf(scene.material.actions, String, scene) : []
  const stock = yield* unsaidPhrase(scene, phrases.reactions[kind], chanceOf(scene), variantOf(scene, 1))
  const deed = pick(own, chanceOf(scene), scene.choice) ?? stock
  return kind === 'farewell' ? deed : yield* goOn(scene, deed)
}

/** Says that there is no answer, or takes up what the user tells, and goes on with something of the character's own. */
export function* deflect(scene: Scene): Steps<string> {
  const { choice, conversation } = scene
  const { question } = conversation
  const chance = chanceOf(scene)
  const say = function* (list: readonly string[], filling = '') {
    return capitalised((yield* unsaidPhrase(scene, list, chance, choice)).replace('%', () => filling))
  }
  const mood = moodOf(question)
  if (mood === 'sorrow') return yield* say(phrases.sympathies)
  if (mood === 'joy') return yield* say(phrases.joys)
  if (mood === 'help') {
    return (yield* ownWords(scene, 'help')) ?? (yield* goOn(scene, yield* say(phrases.refusals)))
  }
  if (mood === 'request') return yield* goOn(scene, yield* say(phrases.refusals))
  const echo = isStatement(question) ? echoOf(question) : null
  if (echo !== null && !isMisleading(echo))
    return `${yield* say(phrases.echoes, echo)} ${yield* say(phrases.invitations)}`
  if (mood === 'opinion') return yield* goOn(scene, yield* say(phrases.indifferences))
  if (isStatement(question)) return yield* goOn(scene, '')
  const topic = offerableTopic(question)
  return yield* goOn(
    scene,
    topic === null ? yield* say(phrases.bareDeflections) : yield* say(phrases.deflections, topic),
  )
}

/** Turns before the first pointer to a topic, and between two of them, at least: a character that points on and on has nothing to say. */
const turnsBeforePointers = 3
const turnsBetweenPointers = 7

/** Goes on behind a few words: with something that was not told yet, else with a pointer to a topic, else with a question. */
export function* goOn(scene: Scene, words: string): Steps<string> {
  const chance = `on/${chanceOf(scene)}`
  const ofCardAndLore = scene.passages.filter(({ source }) => typeof source === 'string' || 'entry' in source)
  const facts = yield* unsaidOf(ofCardAndLore, ({ answer }) => answer, scene)
  const fact = facts[variantOf(scene, Math.min(facts.length, maxVariants)) % facts.length]
  const pointer =
    (words !== '' && pick([true, false, false], chance, scene.choice)) || !fact ? yield* pointerOf(scene) : ''
  if (pointer !== '') return `${words} ${pointer}`.trim()
  const back = fact ? null : yield* returnToUser(scene)
  if (back !== null) return `${words} ${back}`.trim()
  if (!fact || (words !== '' && pick([true, false, false], `ask/${chance}`, scene.choice))) {
    return `${words} ${yield* unsaidPhrase(scene, phrases.questionsBack, chance, scene.choice)}`.trim()
  }
  const isLore = typeof fact.source === 'object'
  const link = isLore || words === '' ? '' : yield* unsaidPhrase(scene, phrases.continuations, chance, scene.choice)
  return [words, link, fact.answer].filter((each) => each !== '').join(' ')
}

const maxVariants = 3

/** Comes back to what the user told last and was not come back to yet; null for nothing, and where it was told just now. */
function* returnToUser(scene: Scene): Steps<string | null> {
  const { earlier, question, said } = scene.conversation
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
  return (yield* unsaidPhrase(scene, phrases.returns, chanceOf(scene), scene.choice)).replace('%', () => echo)
}

function isNews(text: string): boolean {
  return isStatement(text) && introducedName(text) === null
}

/** Points to a topic that an example answers; empty when one was pointed to of late, and when all have been. */
function* pointerOf(scene: Scene): Steps<string> {
  const { conversation, choice, passages } = scene
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
  const left = yield* unsaidOf(examples, ({ answer }) => answer, scene)
  const topics = left.flatMap(({ cue }) => {
    const noun = cue.length > maxTopicCueLength || smallTalkOf(cue, [scene.name]) !== null ? null : nounOf(cue)
    return noun !== null && /^(?:the|an?) /.test(noun) && !known.has(noun) && !isMisleading(noun) ? noun : []
  })
  const topic = pick(topics, `topic/${chanceOf(scene)}`, choice)
  if (topic === undefined) return ''
  return (yield* unsaidPhrase(scene, phrases.pointers, chanceOf(scene), choice)).replace('%', () => topic)
}

/** Letters of a line that a topic is taken from. */
const maxTopicCueLength = 200

/** Says who stands in, and what was asked, when there is no card to play from. */
export function standIn(name: string | null, conversation: Conversation, seed: number | null, choice: number): string {
  const question = conversation.question || conversation.action
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
  return noun === null || isMisleading(noun) ? null : capitalised(noun)
}
