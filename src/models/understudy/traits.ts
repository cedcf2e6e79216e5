import { type Subject, withUser } from './first-person.ts'

/* How a line such as "Age: 24" of a card's list becomes what the character says. */

/** A list of words as one says it: "rain, cats and old books". */
export function spokenList(value: string): string {
  const items = value
    .split(/\s*[,;+]\s*/)
    .map((item) => item.replace(/^["“]([^"“”]*)["”]$/, '$1').trim())
    .filter((item) => item !== '')
  if (items.length < 2 || items.some((item) => item.startsWith('and '))) return items.join(', ')
  return `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}

/** How a line such as "Age: 24" is said, by its name. The first that fits. */
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
  [/^(?:personality|traits?|mind|mentality|character|temperament|demeanou?r)$/, (value) => `They call me ${value}.`],
  [
    /^(?:appearance|body|features?|looks?|physical (?:traits|appearance))$/,
    (value) => `If you want to know what I look like: ${value}.`,
  ],
  [/^(?:clothes|clothing|outfit|attire|wears?)$/, (value) => `I wear ${value}.`],
  [/^(?:home|residence|lives in|location|lives|hometown)$/, (value) => `I live in ${value.replace(/^in /, '')}.`],
  [/^(?:goals?|dreams?|wish(?:es)?|motivations?|ambitions?)$/, (value) => `What I want is ${value}.`],
  [/^(?:skills?|abilit(?:y|ies)|powers?|talents?)$/, (value) => `I am good at ${value}.`],
  [/s$/, (value, name) => `My ${name} are ${value}.`],
  [/$/, (value, name) => `My ${name} is ${value}.`],
]

/** Letters of a trait's value. */
const longestTrait = 300
/** Traits that nobody says of themself. */
const unspoken =
  /^(?:gender|sex|char(?:acter)?|creator|version|tags?|notes?|setting|genre|language|style|(?:full |real )?name)$/

/** A trait of the character as the character says it: "Age" and "24" are "I am 24 years old." */
export function trait(name: string, value: string, subject: Subject): string | null {
  const key = name
    .trim()
    .toLowerCase()
    .replace(/^.*['’]s /, '')
  if (value.length > longestTrait || unspoken.test(key) || /^human$/i.test(value)) return null
  const list = spokenList(value.replace(/[.\s]+$/, ''))
  const form = traits.find(([pattern]) => pattern.test(key))?.[1]
  if (!form || list === '') return null
  const own = list.replace(subject.patterns.ofTrait, 'my').replace(subject.patterns.inTrait, 'me')
  const lower =
    /^\p{Lu}\p{Ll}/u.test(own) && !/name|home|live|location|title/.test(key)
      ? own.charAt(0).toLowerCase() + own.slice(1)
      : own
  return withUser(form(lower, key))
}

function withArticle(value: string): string {
  if (/^(?:an?|the|my|one) |,| and /i.test(value)) return value
  return `${/^[aeiou]/i.test(value) ? 'an' : 'a'} ${value}`
}
