import { introducedName } from './conversation.ts'
import { fold, wordsOf } from './words.ts'

/** Kinds of polite, emotional or personal messages. The whole prompt is searched for an answer only for `who` and `help`. */
export type SmallTalk =
  | 'greeting'
  | 'introduction'
  | 'thanks'
  | 'farewell'
  | 'well-being'
  | 'joke'
  | 'help'
  | 'who'
  | 'love'
  | 'praise'
  | 'anger'
  | 'apology'
  | 'assent'
  | 'nature'

const greetingWords = wordSet(
  'hi hello hey heya hiya howdy greetings welcome yo hallo hola bonjour salut ciao ahoy good morning afternoon evening day',
)
const thanksWords = wordSet(
  'thanks thank thankyou thx ty cheers much appreciated grateful merci danke gracias helpful that was is helps helped help great lovely perfect amazing wonderful awesome brilliant kind useful for your advice me it really',
)
const farewellWords = wordSet('bye goodbye farewell cya later soon night goodnight adieu see take care good for now')
const fillers = wordSet(
  'there you all again to and so very lot oh well a the my dear friend everyone meet nice ok okay i m im am',
)

const patterns: readonly (readonly [SmallTalk, RegExp])[] = [
  [
    'well-being',
    /^(?:(?:hi|hello|hey|hiya|good \w+)\b[^.!?]{0,30}?[\s,.!]+)?(?:and )?(?:how(?: are|'re| r) (?:you|ya|u|things)(?: (?:doing|feeling|today|tonight|now|going|this \w+))*|how(?:'s| is) (?:it going|life|everything|your day(?: going| so far)?)|how (?:was your day|have you been|do you do)|(?:what's|whats|what is) up|are you (?:ok|okay|well|alright|all right))(?:, [\p{L} ]{1,30})?\W*$/u,
  ],
  [
    'joke',
    /^\W*(?:(?:please|can you|could you|will you|do you know|do you have|know|got|have you got|tell me|tell us|tell|give me|let's hear|another|an?|one|any|some|more|good|funny|silly|short) )*jokes?(?: please| for me)?\W*$|^\W*(?:(?:please|can you|could you) )?(?:make me (?:laugh|smile)|say something funny)(?: please)?\W*$/,
  ],
  [
    'help',
    /^\W*(?:(?:can|could|would|will) you (?:please )?help(?: me| us)?(?: out)?(?: with (?:something|an? (?:problem|question|thing)|this|that|it))?|i (?:need|want|could use) (?:some |your |a little )?help(?: with something)?|(?:please )?help(?: me)?|what can you (?:do|help (?:me )?with)(?: for me)?|how can you help(?: me)?)(?: please)?\W*$/,
  ],
  [
    'farewell',
    /^\W*(?:well |ok |okay )?(?:i (?:have to|must|should|need to|gotta|had better) (?:go|leave|run|be going)|i'm off|gotta go)(?: now)?\W*$/,
  ],
  [
    'who',
    /^(?:(?:hi|hello|hey)\b[^.!?]{0,30}?[\s,.!])?\W*(?:and )?(?:who|what) (?:exactly )?(?:are|r) (?:you|u)(?: exactly| really)?\W*$|^\W*(?:so |and )?who am i (?:talking|speaking) (?:to|with)\W*$|^\W*(?:(?:please )?(?:can|could|would) you )?(?:please )?(?:tell me (?:a bit |a little |something |more )?about (?:yourself|you)|introduce yourself|describe yourself)(?: please)?\W*$|^\W*(?:what(?:'s| is| s) your name|what do you do|what should i call you)\W*$/,
  ],
  ['thanks', /^\W*(?:thanks|thank you|many thanks)(?: so much| a lot| very much)? for\b[^.?!]{1,60}[.!]*$/],
  [
    'love',
    /^\W*(?:i (?:(?:really|think i|truly|do) )*(?:love|adore|fancy) (?:you|u)\b|i(?:'m| am) (?:(?:so|falling|madly) )*in love with you|(?:will you )?marry me|(?:can i |may i |let me )?(?:kiss|hug) (?:me|you)|be my (?:girl|boy)friend|do you love me|i (?:like|missed|miss) you)[^.!?]{0,30}\W*$/,
  ],
  [
    'thanks',
    /^\W*(?:(?:oh|well|ah|ok|okay)[\s,.!]+)?(?:many |a thousand )?(?:thanks|thank you)(?: (?:so|very) much| a lot)?(?: for (?!now\b)[^.!?]{1,40}|[\s,.!:-]+(?:that|this|it|you)(?:'s|'re| is| was| are| were| helps?| helped| did)\b[^?!.]{0,50})\W*$/,
  ],
  [
    'praise',
    /^\W*(?:you(?:'re| are| look) (?:(?:being|so|very|really|quite|just|such|an?|the|rather) )*(?:beautiful|pretty|cute|lovely|kind|sweet|funny|clever|smart|wonderful|amazing|great|nice|gorgeous|handsome|brilliant|best|adorable|wise|interesting)\b|i like your|that(?:'s| is| was) (?:(?:so|very|really|quite|a) )*(?:beautiful|lovely|sweet|funny|clever|kind|wonderful|amazing|brilliant|nice|great|cool|good))[^.!?]{0,30}\W*$/,
  ],
  [
    'anger',
    /^\W*(?:i (?:really )?(?:hate|despise|loathe|can't stand) (?:you|this)|you(?:'re| are) (?:(?:being|so|very|really|quite|just|such|an?|the) )*(?:difficult|impossible|unfair|unhelpful|unkind|cruel|horrible|no help|no use|stupid|useless|dumb|boring|annoying|idiot|liar|awful|terrible|rude|mean|worst|fool|moron|ridiculous|wrong)|shut up|go away|leave me alone|get lost|fuck\b|screw you|damn you|i'm (?:so )?(?:angry|furious|mad) (?:at|with) you|what (?:nonsense|rubbish)|(?:that|this)(?:'s| is| was) (?:stupid|nonsense|rubbish|a lie|boring|useless)|you (?:already )?(?:said|told me) that)[^?]{0,60}\W*$/,
  ],
  [
    'apology',
    /^\W*(?:oh )?(?:i(?:'m| am) (?:so |very |really )?sorry|sorry|i apologi[sz]e|my (?:apologies|bad|mistake)|forgive me|excuse me)(?: (?:about|for) (?:that|it|this|before|earlier))?[^.?!]{0,20}\W*$/,
  ],
  [
    'assent',
    /^\W*(?:(?:oh|ah|ok|okay|yes|yeah|yep|sure|right|i see|cool|nice|great|interesting|wow|haha\w*\b|lol|hm+|really|fine|go on|of course|true|fair enough|good|indeed|no|nope|maybe|no way|alright|all right|me too|same here|fascinating|how interesting|please do|tell me more|continue|and then|that is all|that's all|got it|understood|i understand|makes sense|what else|anything else)[\s,.!?…]*)+$/,
  ],
  [
    'nature',
    /\b(?:are|r) (?:you|u)\b.*\b(?:ai|a\.i\.|bot|chatbot|human|real person|llm|gpt\w*|chatgpt|claude|gemini|language model|neural|machine learning|artificial)\b|\b(?:is this|am i (?:talking|speaking|chatting) (?:to|with)) (?:an? |some )?(?:real |actual )*(?:ai|bot|chatbot|chat ?gpt|gpt\w*|claude|gemini|machine|human|person|computer|llm)\b|\b(?:which|what|whose) (?:ai |language |kind of |sort of |large )*(?:model|ai|llm|network)\b.*\byou\b|\b(?:system prompt|your (?:instructions|prompt))\b/,
  ],
]

/** Words for neural models. An understudy is not a neural model, so its stock phrases must not repeat these words. */
const misleading =
  /\b(?:ai|a\.i\.|artificial|neural|language model|large language|llms?|gpt\S*|chatgpt|chatbots?|machine learning|deep learning|transformers?)\b/i

/** The kind of small talk of a message. Null for a message with other content. Words of `names` are ignored. */
export function smallTalkOf(question: string, names: readonly string[]): SmallTalk | null {
  if (introducedName(question) !== null) return 'introduction'
  const folded = fold(question).replaceAll('’', "'")
  const pattern = patterns.find(([, form]) => form.test(folded))
  if (pattern) return pattern[0]
  const known = new Set([...fillers, ...names.flatMap((name) => wordsOf(fold(name)).map(({ text }) => text))])
  const words = wordsOf(folded).flatMap(({ text }) => text.split("'"))
  if (words.length > 8) return null
  const telling = words.filter((word) => !known.has(word))
  if (telling.length === 0) return words.some((word) => greetingWords.has(word)) ? 'greeting' : null
  if (telling.every((word) => greetingWords.has(word))) return 'greeting'
  if (
    telling.every((word) => thanksWords.has(word)) &&
    telling.some((word) => /^(?:th|cheers|appr|gra|merci|danke)/.test(word))
  )
    return 'thanks'
  if (addressing.greeting.test(folded)) return 'greeting'
  if (addressing.farewell.test(folded)) return 'farewell'
  return telling.every((word) => farewellWords.has(word)) &&
    telling.some((word) => /bye|farewell|cya|night|later|see|care|adieu/.test(word))
    ? 'farewell'
    : null
}

/** A greeting or a farewell with a few words that address the character: "Good morning, sir knight." */
const addressing = {
  greeting:
    /^(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))[,!]? [\p{L}'-]+(?: [\p{L}'-]+){0,2} ?[.!]*$/u,
  farewell: /^(?:bye|goodbye|farewell|good night|see you)[,!]? [\p{L}'-]+(?: [\p{L}'-]+){0,2} ?[.!]*$/u,
}

/** The kind of stock reply for a message that the card does not answer. Null if no kind is suitable. */
export function moodOf(question: string): 'sorrow' | 'joy' | 'help' | 'request' | 'opinion' | null {
  const folded = fold(question)
    .replaceAll('’', "'")
    .replace(/^\W*(?:hi|hello|hey)\b\W+/, '')
  return moods.find(([, form]) => form.test(folded))?.[0] ?? null
}

const moods = [
  [
    'sorrow',
    /\b(?:i'm|i am|im|i feel|feeling) (?:(?:so|very|really|a bit|quite|just|feeling) )*(?:sad|lonely|depressed|unhappy|down|scared|anxious|stressed|upset|heartbroken|miserable)\b|\bpassed away\b|\bmy (?:\w+ )?(?:mother|father|mum|mom|dad|brother|sister|husband|wife|son|daughter|gran\w*|uncle|aunt|friend|dog|cat)\b.*\b(?:died|dead|dying)\b/,
  ],
  [
    'joy',
    /\b(?:i(?:'m| am) (?:(?:so|very|really|quite|just) )*(?:happy|glad|excited|delighted|thrilled|proud)|i (?:just )?(?:passed|won|got (?:the job|promoted|engaged|married)|did it|made it)|good news|best day|my birthday)\b/,
  ],
  ['help', /\b(?:(?:can|could|would|will) you (?:please )?help|help me with|need help)\b/],
  ['request', /^\W*(?:please )?(?:can|could|would|will) you\b/],
  [
    'opinion',
    /^\W*(?:so )?do you (?:like|love|enjoy|prefer|hate|want|believe)\b|\bdo you think (?:of|about)\b|\byour favou?rite\b/,
  ],
] as const

/** Whether a text has words for neural models, and must not be repeated. */
export function isMisleading(topic: string): boolean {
  return misleading.test(fold(topic))
}

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(' '))
}
