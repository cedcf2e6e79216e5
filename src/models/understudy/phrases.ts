/*
 * What an understudy says when the card has no words for it. The voice is nobody's in particular, so that it suits
 * every character; nothing here claims to know, to remember or to be more than it is.
 */

/** Replies to what is asked beyond the card, with its topic. */
export const deflections: readonly ((topic: string) => string)[] = [
  (topic) => `“${topic}”? That is beyond what I know.`,
  (topic) => `On “${topic}” I have nothing worth telling.`,
  (topic) => `You have me there: “${topic}” is nothing I know about.`,
  (topic) => `“${topic}”, you say. I would only be guessing.`,
  (topic) => `I cannot speak to “${topic}”, I'm afraid.`,
  (topic) => `Of “${topic}” I know too little to say.`,
  (topic) => `I would sooner say nothing of “${topic}” than make something up.`,
  (topic) => `“${topic}” is outside what I can answer.`,
]

/** The same without a topic. */
export const bareDeflections = [
  'I have no good answer to that.',
  'That is more than I can say.',
  'I would only be guessing there.',
  'You will have to tell me a little more.',
]

/** What leads to the nearest thing there is, when it may not be what was asked for. */
export const hedges: readonly ((topic: string) => string)[] = [
  (topic) => `About “${topic}” I can only tell you this.`,
  (topic) => `I am not sure that it answers “${topic}”, but here is what I have.`,
  (topic) => `The nearest I can come to “${topic}” is this.`,
  (topic) => `“${topic}”: perhaps this is what you are after.`,
]

/** What points to a subject that there is something to say about. */
export const pointersToTopic: readonly ((name: string) => string)[] = [
  (name) => `Ask me about “${name}”, though, and I can tell you something.`,
  (name) => `Now, “${name}”: there I could help.`,
  (name) => `But if “${name}” should interest you, I am all yours.`,
  (name) => `I do have something to say about “${name}”.`,
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
