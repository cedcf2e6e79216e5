import { capitalised, fragment, isVerb, type Subject, withoutPronouns, withUser } from './first-person.ts'

/** Turns a line of a list in a card, such as "Age: 24", into a sentence of the character. */

/** The items of a list, without their quotation marks. */
function itemsOf(value: string): readonly string[] {
  return value
    .replace(/(?<![.\s])[.\s]+$/, '')
    .split(/[,;+]/)
    .map((item) =>
      item
        .trim()
        .replace(/^["“]([^"“”]*)["”]$/, '$1')
        .trim(),
    )
    .filter((item) => item !== '')
}

/** Items as a list in a sentence: "rain, cats and old books". */
function enumerated(items: readonly string[]): string {
  if (items.length < 2 || items.some((item) => item.startsWith('and '))) return items.join(', ')
  return `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}

/** The sentence forms, by the name of the trait. The first match is used. */
const traits: readonly (readonly [RegExp, (value: string, name: string) => string])[] = [
  [/^age$/, (value) => (/^\d+$/.test(value) ? `I am ${value} years old.` : `I am ${value}.`)],
  [
    /^(?:species|race|occupation|job|profession|role|class|rank|title|work|trade)$/,
    (value) => `I am ${withArticle(value)}.`,
  ],
  [/^(?:ethnicity|nationality)$/, (value) => `I am ${value}.`],
  [/^(?:likes?|interests?|hobb(?:y|ies)|enjoys)$/, (value) => `I like ${value}.`],
  [/^loves?$/, (value) => `I love ${value}.`],
  [/^(?:dislikes?|hates?)$/, (value) => `I do not like ${value}.`],
  [/^(?:fears?|phobias?|afraid of)$/, (value) => `I am afraid of ${value}.`],
  [
    /^(?:appearance|body|features?|looks?|physical (?:traits|appearance))$/,
    (value) => `If you want to know what I look like: ${value}.`,
  ],
  [/^(?:clothes|clothing|outfit|attire|wears?)$/, (value) => `I wear ${value}.`],
  [/^(?:home|residence|lives in|location|lives|hometown)$/, (value) => `I live in ${value.replace(/^in /, '')}.`],
  [
    /^(?:goals?|dreams?|wish(?:es)?|motivations?|ambitions?)$/,
    (value) => `What I want${isOfWords.test(value) ? ' is' : ':'} ${value}.`,
  ],
  [/^(?:skills?|abilit(?:y|ies)|powers?|talents?)$/, (value) => `I am good at ${value}.`],
  [/s$/, (value, name) => (isLong(value) ? `My ${name}: ${value}.` : `My ${name} are ${value}.`)],
  [/$/, (value, name) => (isLong(value) ? `My ${name}: ${value}.` : `My ${name} is ${value}.`)],
]

/** The beginnings of texts that can follow "is". */
const isOfWords = /^(?:to|an?|the|my|that|for|more|\p{L}+ing)\b/u

/** Whether a text is a list that is too long for a sentence. */
function isLong(value: string): boolean {
  return value.split(', ').length > 2
}

const maxTraitLength = 300
/** The names of traits that people do not mention when they talk about themselves. */
const unspoken =
  /^(?:gender|sex|char(?:acter)?|creator|version|tags?|notes?|setting|genre|language|style|(?:full |real )?name)$/

/** A trait as the character says it: "Age" and "24" become "I am 24 years old." Null for a trait that is not said. */
export function trait(name: string, value: string, subject: Subject): string | null {
  const key = keyOf(name)
  if (value.length > maxTraitLength || unspoken.test(key) || /^human$/i.test(value)) return null
  const list = enumerated(itemsOf(value))
  const form = traits.find(([pattern]) => pattern.test(key))?.[1]
  if (!form || list === '') return null
  const own = withoutPronouns(list, subject)
  const lower =
    /^\p{Lu}\p{Ll}/u.test(own) && !/name|home|live|location|title/.test(key)
      ? own.charAt(0).toLowerCase() + own.slice(1)
      : own
  return withUser(form(lower, key))
}

/** The key of a trait's name: "Ada's Likes" becomes "likes". */
function keyOf(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replace(/^.*['’]s /, '')
}

/** Whether a trait describes the personality. */
export function isOfPersonality(name: string): boolean {
  return /^(?:personality|traits?|mind|mentality|temperament|demeanou?r)$/.test(keyOf(name))
}

/**
 * The most traits in one sentence, because people do not list twenty of their traits. A single remaining trait joins the last
 * sentence.
 */
const traitsPerSentence = 3
const forms = ['They call me %.', 'Some would say that I am %.', 'I am said to be %.', 'You will find me %.']

/** Sentences for a list of traits: a few traits in each, and one sentence for each item that begins with a verb. */
export function personalitySaid(list: string, subject: Subject): readonly string[] {
  const plain = list.replace(/(?<!\s)\s*\(([^()]*)\)/g, (_, inner: string) => ` ${inner.trim()}`)
  const items = itemsOf(plain).map((item) => withoutPronouns(item.replace(/^and /, ''), subject))
  const deeds = items.filter(startsWithVerb).flatMap((item) => fragment(`${capitalised(item)}.`) ?? [])
  const groups = groupsOf(items.filter((item) => !startsWithVerb(item)).map(withSmallLetter))
  const said = groups.flatMap(
    (group, index) => withUser((forms[index % forms.length] ?? '').replace('%', () => enumerated(group))) ?? [],
  )
  return [...said, ...deeds]
}

function groupsOf(traits: readonly string[]): readonly (readonly string[])[] {
  const count = Math.max(1, Math.floor((traits.length + 1) / traitsPerSentence))
  return Array.from({ length: count }, (_, index) =>
    traits.slice(index * traitsPerSentence, index === count - 1 ? undefined : (index + 1) * traitsPerSentence),
  ).filter((group) => group.length > 0)
}

function startsWithVerb(item: string): boolean {
  return isVerb(/^\p{L}+/u.exec(item)?.[0].toLowerCase() ?? '')
}

function withSmallLetter(item: string): string {
  return /^\p{Lu}\p{Ll}/u.test(item) ? `${item.charAt(0).toLowerCase()}${item.slice(1)}` : item
}

function withArticle(value: string): string {
  if (/^(?:an?|the|my|one) |,| and /i.test(value)) return value
  return `${/^[aeiou]/i.test(value) ? 'an' : 'a'} ${value}`
}
