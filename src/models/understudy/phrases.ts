import { userNameMark as user } from './user-name-mark.ts'

/**
 * Stock phrases for messages that the card does not answer. The style is neutral, so that the phrases suit every character. No
 * phrase claims to know more than the card and the conversation say. `%` is replaced by a noun, a name or a sentence.
 */

/** Replies to a question that the card does not answer, with the question's main noun. */
export const deflections = [
  '%? I would only be guessing.',
  '%? There you have me.',
  '%? I know too little to say.',
  '%? I would sooner say nothing than make something up.',
  '%? That is further than I can see, I am afraid.',
  '%? You want somebody cleverer than me for that.',
  '%? I wish I could tell you.',
  '%? Nobody ever told me.',
]

/** Replies to a question that the card does not answer, without a noun. */
export const bareDeflections = [
  'I have no good answer to that.',
  'That is more than I can say.',
  'I would only be guessing there.',
  'There you have me.',
  'That one is beyond me, I am afraid.',
  'I shall have to owe you that one.',
  'I have wondered about that myself.',
  'Ask me again when I am wiser.',
]

/** Replies to a request to do something. */
export const refusals = [
  'I would be no use to you there, I am afraid.',
  'I had better not promise that.',
  'That is not in my line, I am afraid.',
  'You would regret asking me, of all people.',
]

/** Replies to a question for an opinion. */
export const indifferences = [
  'I have never made up my mind about that.',
  'I have no strong feelings there, one way or the other.',
  'I could be persuaded either way.',
  'Ask me on another day and I might say the opposite.',
]

/** Replies to sorrow, and to joy. */
export const sympathies = [
  'I am sorry to hear it. Stay a while, there is no hurry here.',
  'I am sorry. Tell me about it, if that helps.',
  'That is hard, and I am sorry. You are welcome to sit here until it is lighter.',
]
export const joys = [
  `That is good news, ${user}. I am glad of it.`,
  'Well done! Tell me all of it.',
  'I am glad to hear it, truly.',
]

/** Replies to small talk and feelings, if the card has no answer. */
export const civilities = {
  greeting: [
    `Hello, ${user}. I am %.`,
    `Good to see you, ${user}.`,
    `There you are, ${user}.`,
    `Hello again, ${user}.`,
  ],
  introduction: [
    `Good to meet you, ${user}. I am %.`,
    `${user}, then. I shall remember it.`,
    `So you are ${user}. I am %.`,
  ],
  thanks: [`You are welcome, ${user}.`, `Not at all, ${user}.`, `Any time, ${user}.`, `It was a pleasure, ${user}.`],
  farewell: [
    `Goodbye, ${user}. Come again.`,
    `Until next time, ${user}.`,
    `Take care, ${user}.`,
    `Go well, ${user}. I shall be here.`,
  ],
  'well-being': [
    `Well enough, ${user}, thank you. And you?`,
    `Very well, thank you, ${user}. And yourself?`,
    `I cannot complain, ${user}. How is it with you?`,
  ],
  help: [
    `I will if I can, ${user}. What is it about?`,
    `Gladly, ${user}, if it is in my power. Tell me more.`,
    `Say what you need, ${user}, and I will tell you whether I can.`,
  ],
  joke: [
    'I know none that would bear telling.',
    'The good ones have all left me. The bad ones I keep to myself.',
    'You would have to laugh out of kindness.',
  ],
  love: [
    `That is a kind thing to say, ${user}. I hardly know where to look.`,
    `You will turn my head, ${user}.`,
    `I am fond of you too, ${user}, in my way.`,
    `You do not say such things to everybody, I hope, ${user}.`,
  ],
  praise: [`You are kind, ${user}.`, `I will take that, ${user}, and thank you.`, `Now you flatter me, ${user}.`],
  anger: [
    `I have displeased you, ${user}, and I am sorry for it. What would set it right?`,
    'That was sharp. Say what is the matter, and I will listen.',
    `As you like, ${user}. I will not quarrel with you.`,
    'Let us both take a breath.',
  ],
  apology: [`It is forgotten, ${user}.`, `No harm done, ${user}.`, `Think no more of it, ${user}.`],
} as const

/** Phrases that introduce another passage of the character when the conversation has stopped. */
export const continuations = [
  'Since we are talking:',
  'Here is something that I can tell you:',
  'What I do know is this:',
  'Of myself I can say more.',
  'Let me tell you something else.',
  'This much is certain:',
  'And while you are here:',
  'You may as well know:',
  'One thing you should hear.',
  'It puts me in mind of something.',
]

/** Questions back to the user. */
export const questionsBack = [
  'What brings it to your mind?',
  'But tell me of yourself.',
  'And what do you say?',
  'What would you have liked to hear?',
  'Is it a thing that matters to you?',
  'Where did you hear of it?',
  'And what else is on your mind?',
  'You go on; I like to listen.',
]

/** Phrases that ask the user for more about a statement. */
export const invitations = [
  'Tell me more of that.',
  'And what do you make of it?',
  'Go on, I am listening.',
  'Has it always been so?',
  'I should like to hear more.',
]

/** Phrases that repeat a statement of the user in the second person: "your dog is called Rex". */
export const echoes = [
  'So %.',
  'I see: %.',
  'Then %, and I know a little more of you.',
  '“%”, I shall keep in mind.',
  'You say that %.',
  'Well, well: %.',
]

/** Phrases that repeat a statement of the user as the answer to a question. */
export const recollections = ['You told me that %.', 'You said it yourself: %.', 'As you told me, %.']

/** Phrases that come back to a statement of the user when the card has nothing more. */
export const returns = [
  'I keep coming back to what you told me: %.',
  'Let us go back to you. You said that %.',
  'One thing has stayed with me: %.',
]

/** Replies to an action of the user. */
export const reactions = {
  affection: ['*holds still, and smiles*', '*leans into it for a moment*', '*does not pull away*', '*warms visibly*'],
  violence: [
    '*steps back, out of reach*',
    '*catches the blow, and shakes a head at it*',
    '*does not flinch, and waits*',
  ],
  farewell: ['*watches the way out for a moment*', '*raises a hand in parting*', '*nods, and lets it be goodbye*'],
  other: [
    '*looks up, and takes it in*',
    '*watches, and nods slowly*',
    '*makes room*',
    '*waits to see what comes of it*',
    '*raises an eyebrow*',
    '*lets that happen without a word*',
  ],
} as const

/** Phrases that introduce the nearest match, which may not be the answer. */
export const hedges = [
  'I am not sure that it answers you, but here is what I have.',
  'It may not be quite what you asked, but this is the nearest I can come.',
  'Perhaps this is what you are after.',
  'I can tell you only this.',
  'The nearest I have is this.',
]

/** Phrases that point to a topic of the card. */
export const pointers = [
  'Ask me about %, though, and I can tell you something.',
  'Now, had you asked about %, I could help.',
  'But I do know a thing or two about %.',
  'Let us talk about % instead, if you like.',
]

/** Phrases that say that the character knows nothing more. */
export const endings = [
  'That is all I can tell you about it.',
  'There is no more to it that I know.',
  'I have told you what I know of it.',
]

/** Phrases that introduce an answer that the character has given before. */
export const repetitions = ['As I said:', 'I can only say it again:', 'It is still so:']

/** Openings that distinguish the same answer for other choices and seeds. */
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

/** What the understudy says about itself when the user asks what it is. */
export const natures = [
  'This is the understudy, playing %: a stand-in that looks its answers up in the character’s card, and has stock phrases for the rest.',
  'It is the understudy that you hear, as %. It finds what the card says, and has a few phrases of its own for the rest.',
  'The understudy, still in for %: what it tells is looked up in the card, and what joins it is stock.',
]

/** Replies for a character without a card: each reply names the understudy, and repeats the question. */
export const namedStandIns: readonly ((name: string, question: string) => string)[] = [
  (name, question) => `The understudy here, in for ${name}, with no card to play from. You said: “${question}”`,
  (name, question) => `${name} is known here by name alone, so the understudy can only repeat it: “${question}”`,
  (name, question) => `Standing in for ${name}, the understudy has heard you: “${question}”`,
  (name, question) => `“${question}” is noted. It is the understudy speaking; ${name} has no card here yet.`,
]

/** Replies without a character. */
export const standIns: readonly ((question: string) => string)[] = [
  (question) => `The understudy here, playing nobody in particular. You said: “${question}”`,
  (question) =>
    `This is the understudy. Name a character and it plays from the card; until then, you asked: “${question}”`,
  (question) => `The understudy has heard you: “${question}”`,
  (question) => `“${question}” is noted. It is the understudy speaking, with no character to play.`,
]
