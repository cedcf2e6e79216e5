/*
 * What an understudy says when the card has no words for it. The voice is nobody's in particular, so that it suits
 * every character; nothing here claims to know, to remember or to be more than it is.
 */

/** Replies to what is asked beyond the card, with the noun that it turns on. */
export const deflections: readonly ((topic: string) => string)[] = [
  (topic) => `${topic}? I would only be guessing.`,
  (topic) => `${topic}? There you have me.`,
  (topic) => `${topic}? I know too little to say.`,
  (topic) => `${topic}? I would sooner say nothing than make something up.`,
  (topic) => `${topic}? That is further than I can see, I'm afraid.`,
  (topic) => `${topic}? You want somebody cleverer than me for that.`,
]

/** The same without a noun. */
export const bareDeflections = [
  'I have no good answer to that.',
  'That is more than I can say.',
  'I would only be guessing there.',
  'There you have me.',
  'That one is beyond me, I am afraid.',
]

/** Replies to what is asked to be done. */
export const refusals = [
  'I would be no use to you there, I am afraid.',
  'I had better not promise that.',
  'That is not in my line, I am afraid.',
]

/** Replies to what asks for an opinion. */
export const indifferences = [
  'I have never made up my mind about that.',
  'I have no strong feelings there, one way or the other.',
  'I could be persuaded either way.',
]

/** Replies to somebody's sorrow. */
export const sympathies = [
  'I am sorry to hear it. Stay a while, there is no hurry here.',
  'I am sorry. Tell me about it, if that helps.',
  'That is hard, and I am sorry. You are welcome to sit here until it is lighter.',
]

/** What is said for politeness when the card has no words of its own for it; each takes the user's name. */
export const civilities: Readonly<
  Record<'thanks' | 'farewell' | 'well-being' | 'help', readonly ((user: string) => string)[]>
> = {
  thanks: [(user) => `You are welcome, ${user}.`, (user) => `Not at all, ${user}.`, (user) => `Any time, ${user}.`],
  farewell: [
    (user) => `Goodbye, ${user}. Come again.`,
    (user) => `Until next time, ${user}.`,
    (user) => `Take care, ${user}.`,
  ],
  'well-being': [
    (user) => `Well enough, ${user}, thank you. And you?`,
    (user) => `Very well, thank you, ${user}. And yourself?`,
  ],
  help: [
    (user) => `I will if I can, ${user}. What is it about?`,
    (user) => `Gladly, ${user}, if it is in my power. Tell me more.`,
  ],
}

/** What leads to the nearest thing there is, when it may not be what was asked for. */
export const hedges = [
  'I am not sure that it answers you, but here is what I have.',
  'It may not be quite what you asked, but this is the nearest I can come.',
  'Perhaps this is what you are after.',
  'I can tell you only this.',
]

/** What points to a subject that there is something to say about. */
export const pointersToTopic: readonly ((name: string) => string)[] = [
  (name) => `Ask me about ${name}, though, and I can tell you something.`,
  (name) => `Now, had you asked about ${name}, I could help.`,
  (name) => `But I do know a thing or two about ${name}.`,
  (name) => `Let us talk about ${name} instead, if you like.`,
]

/** What points to a question that there is an answer to. */
export const pointersToQuestion: readonly ((question: string) => string)[] = [
  (question) => `You might ask me instead: “${question}”`,
  (question) => `Here is one that I could answer: “${question}”`,
  (question) => `Try me with this: “${question}”`,
]

/** Openings that make an answer differ from the same one without. */
export const openings = [
  'Well now.',
  'Since you ask.',
  'Here is how it stands.',
  'A fair question.',
  'Gladly.',
  'Let me think. Yes.',
  'It is soon told.',
  'I can tell you that.',
]

/** Replies of a character that is known by its name alone; they say so, and what they were asked. */
export const namedStandIns: readonly ((name: string, question: string) => string)[] = [
  (name, question) => `The understudy here, in for ${name}, with no card to play from. You said: “${question}”`,
  (name, question) => `${name} is known here by name alone, so the understudy can only repeat it: “${question}”`,
  (name, question) => `Standing in for ${name}, the understudy has heard you: “${question}”`,
  (name, question) => `“${question}” is noted. It is the understudy speaking; ${name} has no card here yet.`,
]

/** Replies when no character was asked for. */
export const standIns: readonly ((question: string) => string)[] = [
  (question) => `The understudy here, playing nobody in particular. You said: “${question}”`,
  (question) =>
    `This is the understudy. Name a character and it plays from the card; until then, you asked: “${question}”`,
  (question) => `The understudy has heard you: “${question}”`,
  (question) => `“${question}” is noted. It is the understudy speaking, with no character to play.`,
]
