import { isExample, type Passage } from './card-passages.ts'
import { fold } from './words.ts'

/**
 * Common questions about a person, and patterns for answers in the character's sentences. They are needed because a search by
 * words does not find "I am twenty-four" for "how old are you?".
 */
const subjects: readonly (readonly [asked: RegExp, answering: RegExp])[] = [
  [
    /\bhow old\b|\byour age\b|\bwhen were you born\b|\byour birthday\b/,
    /\byears? old\b|\bmy (?:age|birthday)\b|-year-old|\bI (?:am|was) (?:\w+[- ]){0,2}(?:\d{1,4}|past \w+|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)|\bborn\b|\b\w+-odd\b/i,
  ],
  [
    /\bwhere (?:are we|am i)\b(?! (?:going|headed|bound|flying|off))|\bwhat(?:'s| is) (?:happening|going on|this place|it like here)\b|\bwhat do you see\b|\blook around\b/,
    /^scene:/,
  ],
  [
    /\bdo you live\b|\bwhere (?:do|did|are) you (?:live|from|come from|stay|sleep|born|grow)|\byour (?:home|house|hometown|village|room)\b/,
    /\bI (?:live|was born|grew up|come from|dwell|reside|sleep|keep)\b|\bmy (?:home|house|village|hometown|room|cottage|hut)\b/i,
  ],
  [
    /\bwhat do you do(?: here| all day)?\W*$|\bfor a living\b|\byour (?:job|work|profession|occupation|trade|role)\b|\bdo you work\b/,
    /\bI (?:\w+ly )?(?:work|run|keep|own|teach|serve|sell|mend|guard|study|make|look after)\b|\bI am (?:the|an?) [^.]*?(?:er|or|ist|ian|man|maid|smith|keeper|captain|student|cook|guard|robot|witch|knight|nurse)\b|\bI used to\b/i,
  ],
  [
    /\blook like\b|\byour (?:hair|eyes|face|appearance|looks|clothes|outfit|height)\b|\bdescribe your|\bhow tall\b|\bare you wearing\b|\bdo you wear\b/,
    /\bI am (?:[^.]* )?tall\b|\b(?:hair|eyes?|skin|wear|dress|beard|scars?|face|figure|height|freckles|spectacles|glasses|what I look like|brown to)\b/i,
  ],
  [
    /\bafraid\b|\bscare[sd]?\b|\byour (?:biggest |greatest |worst )?fears?\b|\bfrighten/,
    /\bI (?:am (?:afraid|scared|terrified)|fear|dread)\b|\bmy (?:\w+ )?fears?\b|\bscares? me\b|\bas weather\b/i,
  ],
  [
    /\bdo you (?:hate|dislike)\b|\bcan(?:'t| not|not) you stand\b|\bannoys? you\b|\bmakes you (?:angry|mad)\b|\bpet peeve/,
    /\bI (?:hate|do not like|dislike|distrust|despise|loathe|cannot stand|can't stand|reserve|am strict)\b/i,
  ],
  [
    /\bdo you (?:like|love|enjoy)(?: to do)?(?: most| best)?\W*$|\byour (?:hobb|interests?|passion|pastime)|\bfor fun\b|\b(?:free|spare) time\b|\bmakes you happy\b|\bfavou?rite (?:thing|way|pastime)\b/,
    /\bI (?:like|love|enjoy|adore|collect|play|paint|sing|am fond)\b|\bfond of\b|\bfavou?rite\b|\bpassion|\bhobb|\bdelight/i,
  ],
  [
    /\b(?:family|parents|mother|father|brothers?|sisters?|siblings?|married|husband|wife|children|kids)\b/,
    /\bmy (?:\w+ )?(?:family|parents|mother|father|brothers?|sisters?|siblings?|husband|wife|children|son|daughter|grand\w+|aunt|uncle)\b|\bmarried\b|\borphan/i,
  ],
  [
    /\byour (?:dream|wish|goal|hope|plan|ambition)|\bdo you (?:dream|wish|want|hope)\b(?! to)|\bwhat do you want\b/,
    /\bI (?:\w+ly )?(?:want|dream|hope|wish|long|plan|intend)\b|\bmy (?:\w+ )?(?:dream|goal|wish|hope|ambition)|\bone day\b/i,
  ],
  [
    /\byour (?:past|story|childhood|history|youth)\b|\bgrow up\b|\bhow did you (?:become|get|end up|come|start)\b|\bwhere did you learn\b|\bhow long have you\b/,
    /\bI (?:was|grew|used to|arrived|left|lost|met|had|became|came|spent|learned|inherited|ran)\b|\byears ago\b|\bfor \w+ years\b|\bI have been\b/i,
  ],
  [
    /\b(?:are you good|can you do|your (?:skills?|powers?|abilit|talents?|specialty))\b/,
    /\bI (?:can|am good at|know how)\b|\bmy (?:skills?|powers?|talents?|gift)\b/i,
  ],
  [
    /\bwhat are you like\b|\byour (?:personality|character|nature|temper)\b|\bwhat kind of (?:person|woman|man)\b|\babout you(?:rself)?\b|\bwho are you\b|\bwhat are you\W*$|\bdescribe yourself\b|\bintroduce yourself\b|\bwhat(?:'s| is) special about you\b|\bsecrets?\b/,
    /\bI\b|\bmy\b/,
  ],
]

/** Returns a test for passages that answer a question about the character; null for any other question. */
export function personalSubject(question: string): ((passage: Passage) => boolean) | null {
  const asked = fold(question).replaceAll('’', "'")
  if (!/\b(?:you|your|yourself|we|am i|this place|happening|going on|look around|secrets?)\b/.test(asked)) return null
  const [pattern, answering] = subjects.find(([form]) => form.test(asked)) ?? []
  if (!pattern || !answering) return null
  return ({ source, answer, cue }) =>
    typeof source === 'string'
      ? answering.test(source === 'scene' ? `scene:${answer}` : answer)
      : isExample(source) && pattern.test(fold(cue))
}
