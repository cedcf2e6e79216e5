import { userNameMark } from './user-name-mark.ts'

/**
 * Turns a text about a character into the character's words: "Mallow keeps bees, and her house is small" becomes "I keep bees,
 * and my house is small". Only plain English sentences can be turned. Other sentences about the character are left out.
 */

/** The character that a text is about. */
export interface Subject {
  /** The text's pronouns for the character; null if the text has no pronouns. */
  readonly pronouns: Pronouns | null
  readonly patterns: Patterns
}

/** The patterns of a card. They are compiled once for each card, because compiling takes longer than searching. */
type Patterns = ReturnType<typeof patternsOf>

interface Pronouns {
  readonly subject: string
  readonly object: string
  readonly possessive: string
  readonly reflexive: string
}

const pronounSets: readonly Pronouns[] = [
  { subject: 'she', object: 'her', possessive: 'her', reflexive: 'herself' },
  { subject: 'he', object: 'him', possessive: 'his', reflexive: 'himself' },
  { subject: 'they', object: 'them', possessive: 'their', reflexive: 'themselves' },
]

/** Parts of names that are not a name alone. */
const titles =
  /^(?:.{1,2}|the|and|von|van|del?|dr|mrs?|ms|miss|sir|lady|lord|prof|professor|captain|king|queen|prince|princess|saint|old|little)\.?$/i
/** Bounds of the names that are searched for in sentences: their number, and their letters. */
const maxNames = 12
const maxNameLength = 60

/** Makes the subject of a text. The subject gets the pronouns that occur most often in the text. */
export function subjectOf(names: readonly string[], text: string): Subject {
  const count = ({ subject, possessive }: Pronouns) =>
    text.match(new RegExp(`\\b(?:${subject}|${possessive})\\b`, 'gi'))?.length ?? 0
  const counts = pronounSets.map(count)
  const most = Math.max(...counts)
  const pronouns = most === 0 ? null : (pronounSets[counts.indexOf(most)] ?? null)
  const parts = names.flatMap((name) => [name, ...name.split(/\s+/)])
  const known = [...new Set(parts)].filter(
    (name) => name.length <= maxNameLength && /^\p{L}/u.test(name) && !titles.test(name),
  )
  const longestFirst = known.slice(0, maxNames).sort((one, other) => other.length - one.length)
  return { pronouns, patterns: patternsOf(longestFirst, pronouns ?? noPronouns) }
}

function patternsOf(names: readonly string[], { subject, object, possessive, reflexive }: Pronouns) {
  const name =
    names.length === 0 ? '(?!)' : `(?:${names.map((each) => each.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')).join('|')})`
  const word = (text: string, flags = 'iu') => new RegExp(`(?<![\\p{L}\\p{N}])(?:${text})(?![\\p{L}\\p{N}])`, flags)
  return {
    mentions: word(`${name}|${subject}|${object}|${possessive}|${reflexive}`),
    /** "She is a tall woman": here "woman" means the character, and not another person. */
    kind: new RegExp(
      `^(?:${name}|${subject}) (?:is|was) an? (?:[\\p{L}\\d'’,-]+ ){0,6}?(?:${females}|${males})(?![\\p{L}\\p{N}])`,
      'iu',
    ),
    /** A pronoun that may mean the character or another person. */
    either: new RegExp(`[^\\p{L}](?:${subject}|${object})[^\\p{L}]`, 'iu'),
    owned: new RegExp(
      `(?<![\\p{L}\\p{N}])(?:${name})['’]s? (?=\\p{Ll})(?!(?:an?|the|not|been|\\p{L}+ing|\\p{L}+ed) )`,
      'gu',
    ),
    clause: new RegExp(
      `(?<![\\p{L}\\p{N}'’-])(${name}|${subject})(['’]s|['’]re)?( ${adverb}*)([a-z]+n['’]t|[a-z]+)(?![\\p{L}\\p{N}])`,
      'giu',
    ),
    self: word(reflexive, 'giu'),
    own: new RegExp(`(?<![\\p{L}\\p{N}'’])${possessive}(?= ["“]?([\\p{L}'’-]+))(?![\\p{L}])`, 'giu'),
    me: new RegExp(`(?<![\\p{L}\\p{N}'’])(?:${object}|${name})(?![\\p{L}\\p{N}'’])`, 'giu'),
    left: word(`${subject}|${name}|hers|theirs`),
    /** Whether the same word is possessive and object: "her" becomes "my" before a noun, and otherwise "me". */
    hasTwoMeanings: possessive === object,
    ofTrait: new RegExp(`\\b(?:${possessive})(?= \\p{Ll})`, 'giu'),
    inTrait: word(object, 'giu'),
  }
}

const adverb =
  '(?:(?:always|often|never|sometimes|also|still|usually|just|only|once|now|rarely|seldom|even|then|\\w+ly) )'
/**
 * Verbs that may begin a second clause: "keeps bees and sells honey". Another word that ends in "s" counts as a verb only if the
 * next word often follows a verb (`followsVerb`).
 */
const verbs = new RegExp(
  `^(?:${`is has does goes says tells asks gives takes makes keeps sells loves likes hates wants needs knows thinks believes feels
  lives works runs walks sits stands speaks talks sings writes reads teaches learns helps treats wears carries holds brings
  leaves finds loses looks listens hears sees watches smiles laughs cries sleeps wakes dreams hopes fears prefers
  enjoys collects plays cooks bakes brews grows tends mends fixes repairs builds draws paints hunts fights protects guards
  serves leads follows travels wanders flies rides sails rolls hums counts forgives reserves distrusts diagnoses sniffs turns
  lifts adds becomes begins seems appears remains stays tries uses refuses rushes shames skips quotes celebrates hides
  spends owns calls cares trims answers never offers lets means blushes stutters tends honours steers trades struggles longs wishes insists
  maintains organizes organises demonstrates converses remembers drinks refers avoids claims solves gestures sketches names`
    .split(/\s+/)
    .join('|')})$`,
)
const followsVerb =
  /^(?:only|(?!family|early|mostly)\w+ly|the|an?|his|her|their|its|my|your|every|each|all|no|to|him|them|it|herself|himself|themselves|with|whatever|you)$/i
/** If one of these words follows "her", then "her" is not a possessive. */
const noNoun =
  /^(?:and|or|but|to|in|on|at|with|from|for|of|by|as|something|nothing|everything|anything|how|what|than|when|while|because|if|that|who|which|the|an?|is|was|are|were|has|had|so|out|up|down|off|away|back|into|about)$/i
const females =
  'mother|mom|mum|sister|daughter|wife|aunt|grandmother|girl|woman|queen|princess|mistress|lady|friend|women|widow'
const males =
  'father|dad|brother|son|husband|uncle|grandfather|boy|man|king|prince|master|lord|friend|men|squire|knight'
const people = 'people|others|children|parents|friends|villagers|men|women|customers|everyone|boys|girls'
/** For each pronoun, nouns for other persons that the pronoun may mean. */
const others: ReadonlyMap<string, RegExp> = new Map(
  [
    ['she', females],
    ['he', males],
    ['they', people],
  ].map(([pronoun = '', words]) => [pronoun, new RegExp(`\\b(?:${words})\\b`, 'i')]),
)
const irregular: ReadonlyMap<string, string> = new Map([
  ['is', 'am'],
  ["isn't", 'am not'],
  ['has', 'have'],
  ["hasn't", "haven't"],
  ['does', 'do'],
  ["doesn't", "don't"],
  ['goes', 'go'],
  ['are', 'am'],
  ["aren't", 'am not'],
  ['were', 'was'],
  ['dies', 'die'],
  ['lies', 'lie'],
  ['ties', 'tie'],
])
const same = /^(?:was|always|perhaps|sometimes|besides|this|its|his|as|us|yes|[a-z]*(?:ss|us|ous))$/

/** The form of a verb after "I": "keeps" becomes "keep". */
function firstPersonOf(verb: string): string {
  const known = irregular.get(verb)
  if (known !== undefined) return known
  if (same.test(verb) || !/^[a-z]+s$/.test(verb)) return verb
  return verb
    .replace(/ies$/, 'y')
    .replace(/(ch|sh|ss|x|zz|o)es$/, '$1')
    .replace(/([^s])s$/, '$1')
}

/**
 * Turns a sentence about the subject into the first person. Null if the result might be wrong. A sentence in the first person
 * stays unchanged. In a sentence that does not mention the subject, only the user's name becomes "you".
 * @param isAbout true if the sentence is about the subject even without a mention. Then `fragment` turns the sentence
 */
export function inFirstPerson(sentence: string, { pronouns, patterns }: Subject, isAbout = false): string | null {
  if (/\b(?:I|I'm|I've|my|me)\b/.test(withoutQuotes(sentence))) return sentence
  const { mentions, kind, either, clause, owned, self, own, me, left, hasTwoMeanings } = patterns
  const { subject } = pronouns ?? noPronouns
  if (!mentions.test(sentence)) return isAbout ? fragment(sentence) : withUser(sentence)
  if (pronouns === null && anyPronoun.test(sentence)) return null
  const person = others.get(subject)?.exec(sentence.replace(kind, (found) => ' '.repeat(found.length)))
  const rest = person ? sentence.slice(person.index) : ''
  if (person && either.test(rest)) return null
  const turned = sentence
    .replace(owned, 'my ')
    .replace(clause, (_, _who: string, short: string | undefined, between: string, verb: string) => {
      const linked = short === undefined ? '' : /been|got/.test(verb) ? "'ve" : "'m"
      return `I${linked}${between}${linked === '' ? firstPersonOf(verb.toLowerCase().replace('’', "'")) : verb}`
    })
    .replace(self, 'myself')
    .replace(own, (found, next: string) => (hasTwoMeanings && noNoun.test(next) ? found : 'my'))
    .replace(me, 'me')
  const joined = withJoinedVerbs(turned)
  if (joined === null) return null
  return left.test(joined) ? null : withUser(withWe(capitalised(joined), subject))
}

/** A sentence without its quotes. After the last closing mark no quote is looked for, because it would be looked for in vain. */
function withoutQuotes(sentence: string): string {
  const end = 1 + Math.max(sentence.lastIndexOf('"'), sentence.lastIndexOf('”'))
  return sentence.slice(0, end).replace(/["“][^"”]*["”]/g, '') + sentence.slice(end)
}

/**
 * Turns further verbs of the same subject, such as "sells" in "I keep bees and sells honey". Null if a verb may have another
 * subject.
 */
function withJoinedVerbs(sentence: string): string | null {
  let isUnsure = false
  const joined = sentence.replace(
    joinedVerb,
    (found, link: string, between: string, verb: string, next: string, at: number) => {
      const isVerb =
        /s$/.test(verb) && !same.test(verb) && (verbs.test(verb) || followsVerb.test(next) || next === userNameMark)
      if (!isVerb) return found
      const before = sentence.slice(sentence.slice(0, at).lastIndexOf('I ') + 1, at)
      if (!/\b(?:who|that|which|where|whose)\b/.test(before)) return `${link} ${between}${firstPersonOf(verb)}`
      isUnsure ||= link.startsWith(',')
      return found
    },
  )
  return isUnsure ? null : joined
}

const joinedVerb = new RegExp(
  `(,? (?:and|but|or|then)|[,;]) ((?:then |never |always |often |\\w+ly )*)(\\w+)(?= (\\w+|${userNameMark}))`,
  'gu',
)

/** If the character's pronouns are not known, a sentence with one of these pronouns cannot be turned. */
const anyPronoun = /\b(?:he|she)\b/i

const noPronouns: Pronouns = { subject: '(?!)', object: '(?!)', possessive: '(?!)', reflexive: '(?!)' }

/**
 * Turns a sentence that does not mention the character: "Tells true things slantwise" becomes "I tell true things slantwise",
 * "A noticer of hours" becomes "I am a noticer of hours". A sentence with "is", "has" or the like is kept. Null for any other
 * sentence, such as "Patient, courteous".
 */
export function fragment(sentence: string): string | null {
  const [first = ''] = /^[\p{L}'-]+/u.exec(sentence) ?? []
  const lower = first.toLowerCase()
  if (verbs.test(lower) || /^(?:never|always|often) \w+s\b/i.test(sentence)) {
    return withUser(
      `I ${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}`.replace(
        /(^I |, |; |\band |\bbut )((?:never |always |often )?)(\w+s)\b(?! ?[,;.])/g,
        (found, before, between, verb) =>
          verbs.test(verb) || before === 'I ' || between !== '' ? `${before}${between}${firstPersonOf(verb)}` : found,
      ),
    )
  }
  if (/\b(?:is|are|was|were|has|have|had|can|will)\b/.test(sentence)) return withUser(sentence)
  if (/^an?$/i.test(first)) return withUser(`I am ${lower}${sentence.slice(first.length)}`)
  return null
}

/** Turns "they" into "we" in a sentence that names only the character and the user: "I have known you since we met". */
function withWe(sentence: string, pronoun: string): string {
  if (pronoun === 'they' || !sentence.includes(userNameMark) || others.get('they')?.test(sentence)) return sentence
  return capitalised(
    sentence
      .replace(both, 'we $1')
      .replace(/\bthey\b/g, 'we')
      .replace(/\btheir\b/g, 'our')
      .replace(/\bthem\b/g, 'us'),
  )
}

const both = new RegExp(`(?:\\bI and ${userNameMark}|${userNameMark} and (?:I|me)) (are|were|have)\\b`, 'g')

/** Replaces the user's name by "you" in a sentence of the character; null for a sentence that begins with the name. */
export function withUser(sentence: string): string | null {
  if (sentence.startsWith(userNameMark)) return null
  return sentence
    .replaceAll(`${userNameMark}'s`, 'your')
    .replace(
      new RegExp(`${userNameMark} ([a-z]+s(?:(?:,? and |, )[a-z]+s)*)\\b`, 'g'),
      (_, found: string) => `you ${found.replace(/[a-z]+s\b/g, secondPersonOf)}`,
    )
    .replaceAll(userNameMark, 'you')
}

function secondPersonOf(verb: string): string {
  return verb === 'is' ? 'are' : verb === 'was' ? 'were' : firstPersonOf(verb)
}

/** Whether a word is a known verb, in its form after "she". */
export function isVerb(word: string): boolean {
  return verbs.test(word)
}

/** Replaces the character's pronouns: "loves her cat" becomes "loves my cat". */
export function withoutPronouns(text: string, { patterns }: Subject): string {
  return text.replace(patterns.ofTrait, 'my').replace(patterns.inTrait, 'me')
}

/**
 * Splits a sentence in the first person into its clauses, so that a long list of actions becomes several answers. A sentence
 * stays whole if it has fewer than three clauses, or if a clause may be about something else.
 */
export function clausesOf(sentence: string): readonly string[] {
  const clauses = sentence.split(nextClause)
  const isWhole =
    clauses.length < 3 ||
    !/^I\b/.test(sentence) ||
    /\b(?:who|that|which|where|whose)\b|["“”;:]/.test(sentence) ||
    clauses.some((clause) => clause.split(' ').length < 3)
  if (isWhole) return [sentence]
  const end = /[.!?]$/.exec(sentence)?.[0] ?? '.'
  return clauses.map((clause, index) => `${index === 0 ? '' : 'I '}${clause}${index === clauses.length - 1 ? '' : end}`)
}

/** A comma before a verb with the subject "I". */
const nextClause = new RegExp(
  `, (?:and )?(?=(?:${verbs.source.slice(4, -2).split('|').map(firstPersonOf).join('|')}) )`,
)

/** A text with a capital at its start, or after the quotation mark or asterisk at its start. */
export function capitalised(text: string): string {
  return text.replace(/^(["“*]?)(\p{Ll})/u, (_, mark: string, letter: string) => `${mark}${letter.toUpperCase()}`)
}
