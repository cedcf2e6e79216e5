import { cardOf } from '../../characters/cards/kept-card.ts'
import { spend } from '../../work/fuel.ts'
import { type Passage, type ReadCard, readCard, sentencesOf, userMark } from './passages.ts'
import { type Conversation, type ReplyInput, shortened } from './reply-input.ts'
import { createSearch } from './search.ts'

/** The minimum score of an answer. */
const minScore = 0.8
/** The weight of lore, which has fired because the conversation has a key of it. */
const weightOfLore = 1.5
/** For further choices and other seeds, an answer needs at least this share of the best score. */
const minShareOfBest = 0.8
/** The most seeds that give different answers. */
const maxSeeds = 16

/** A question for what answers here. */
const asksNature =
  /\b(?:are|r) (?:you|u)\b.{0,30}\b(?:ai|a\.i|bot|chatbot|human|person|llm|gpt\w*|chatgpt|claude|gemini|model|neural|artificial|real\W*$)\b|\b(?:is this|am i (?:really )?(?:talking|speaking|chatting) (?:to|with)) (?:an? |some )?(?:real |actual )?(?:ai|bot|chatbot|chat ?gpt|gpt\w*|claude|gemini|machine|human|person|computer|llm|model)\b|\b(?:which|what|whose) (?:ai |language |kind of )?(?:model|ai|llm)\b|\bwho (?:really )?(?:answers|is (?:really )?(?:answering|talking|speaking))\b/i
const asksSelf =
  /\bwho (?:exactly |really )?are you\b|\babout (?:you|yourself)\b|\b(?:introduce|describe) yourself\b|\byour name\b/i

/**
 * The character's replies, one for each choice. Without a seed, choice 0 is the best answer. No reply has a sentence of the
 * greeting or of an earlier reply.
 */
export function answersAs(input: ReplyInput, conversation: Conversation): readonly string[] {
  const { toolResult } = conversation
  const texts = toolResult === null ? textsOf(input, conversation) : [`Here is what came back: ${toolResult}`]
  const rank = Math.abs(input.seed ?? 0) % maxSeeds
  return Array.from({ length: input.choiceCount }, (_, choice) => texts[(rank + choice) % texts.length] ?? '')
}

/** The texts that are equally good replies, at least one. */
function textsOf(input: ReplyInput, { question, said }: Conversation): readonly string[] {
  const { name, card } = input.persona
  const known = new Set(said.flatMap(sentencesOf))
  const whom = name === null ? '' : `, in for ${name}`
  if (asksNature.test(question)) {
    return firstUnsaid(known, [
      `This is the understudy${whom}: a stand-in that finds its words in the card. A conversation needs a real model.`,
      `Still the understudy${whom}. It looks words up, and understands nothing of them.`,
      `It is the understudy that answers, and also in reply ${said.length + 1}.`,
    ])
  }
  if (card === null) {
    return firstUnsaid(known, [
      `This is the understudy${whom}, without a card to play from. You said: “${shortened(question)}”`,
      `You said: “${shortened(question)}”`,
      `The understudy has heard you, and gives reply ${said.length + 1}.`,
    ])
  }
  const found = textsFrom(readCard(cardOf(card)), input, question, known)
  if (found.length > 0) return found
  const rest = `After ${said.length} replies I have nothing to add.`
  return isQuestion(question)
    ? firstUnsaid(known, [`My card has no answer to ‘${shortened(question)}’.`, rest])
    : [rest]
}

/** The first text without a sentence that was said. The last text has the number of the reply, so it is always new. */
function firstUnsaid(said: ReadonlySet<string>, texts: readonly string[]): readonly string[] {
  return [texts.find((text) => !sentencesOf(text).some((sentence) => said.has(sentence))) ?? texts.at(-1) ?? '']
}

/** Whether a message asks for something else than who the character is. */
function isQuestion(message: string): boolean {
  return message.endsWith('?') && !asksSelf.test(message)
}

/** Texts of the card that answer a message equally well, or that continue the talk; none for a question without an answer. */
function textsFrom(card: ReadCard, input: ReplyInput, message: string, said: ReadonlySet<string>): readonly string[] {
  const named = (text: string) => text.replaceAll(userMark, () => input.persona.userName)
  const isUnsaid = ({ text, sentences }: Passage) => {
    spend(1 + sentences.length)
    if (sentences.some((sentence) => card.greeted.has(sentence))) return false
    const spoken = text.includes(userMark) ? sentencesOf(named(text)) : sentences
    return !spoken.some((sentence) => said.has(sentence))
  }
  const { passages, hits } = inPrompt(card, input, message)
  const left = hits.filter(({ passage }) => isUnsaid(passage))
  const enough = Math.max(minScore, minShareOfBest * (left[0]?.score ?? 0))
  const answers = left.filter(({ score }) => score >= enough).map(({ passage }) => passage)
  const found = answers.length > 0 || isQuestion(message) ? answers : passages.filter(isUnsaid).slice(0, maxSeeds)
  return found.map(({ text, isQuoted }) => named(isQuoted ? `My card says: “${text}”` : text))
}

/** The passages whose source is in the prompt, and those that match a message, best first. */
function inPrompt(card: ReadCard, { lore, droppedExamples }: ReplyInput, message: string) {
  const fired = new Set(lore)
  const blocks = Math.max(0, card.blocks - droppedExamples)
  const isSent = ({ source }: Passage) => {
    if (source === 'prose') return true
    return 'block' in source ? source.block < blocks : fired.has(source.entry)
  }
  const others = card.readLore(lore)
  const asked = card.withoutNames(message)
  const exact = asked === '' ? [] : (card.answers.get(asked) ?? []).filter(isSent)
  const hits = card.search(asked).flatMap(({ passage, score }) => {
    const { source } = passage
    const weight = source !== 'prose' && 'entry' in source ? weightOfLore : 1
    return isSent(passage) ? { passage, score: score * weight } : []
  })
  if (others.length > 0) hits.push(...createSearch(others)(asked))
  return {
    passages: [...card.passages.filter(isSent), ...others],
    hits: exact.length > 0 ? exact.map((passage) => ({ passage, score: 1 })) : hits.sort((a, b) => b.score - a.score),
  }
}
