/** Irregular English forms and British spellings, each with the form to which it is reduced. */
const irregularForms = new Map(
  `went:go gone:go bought:buy broke:break broken:break flew:fly flown:fly flies:fly grew:grow grown:grow stuck:stick
  kept:keep lost:lose found:find made:make saw:see seen:see said:say told:tell thought:think took:take taken:take
  ate:eat eaten:eat drank:drink drunk:drink slept:sleep asleep:sleep woke:wake awake:wake built:build sent:send
  spent:spend fell:fall fallen:fall felt:feel froze:freeze frozen:freeze stole:steal stolen:steal wrote:write
  written:write spoke:speak spoken:speak wore:wear worn:wear tore:tear torn:tear threw:throw thrown:throw knew:know
  known:know came:come became:become ran:run sang:sing sung:sing sank:sink sunk:sink swam:swim caught:catch
  taught:teach fought:fight brought:bring sold:sell paid:pay lit:light bent:bend bitten:bite hidden:hide rode:ride
  drove:drive driven:drive chose:choose chosen:choose began:begin begun:begin gave:give given:give met:meet won:win
  shook:shake hung:hang stood:stand held:hold drew:draw drawn:draw blew:blow blown:blow led:lead dug:dig shone:shine
  leaves:leaf knives:knife shelves:shelf wolves:wolf thieves:thief wives:wife loaves:loaf halves:half mice:mouse
  geese:goose feet:foot teeth:tooth men:man women:woman children:child dying:die lying:lie tying:tie died:die
  lied:lie tied:tie better:good worse:bad worst:bad
  colour:color favourite:favorite neighbour:neighbor grey:gray tyre:tire mould:mold plough:plow centre:center
  fibre:fiber metre:meter litre:liter aluminium:aluminum jewellery:jewelry pyjamas:pajamas mum:mom cosy:cozy`
    .split(/\s+/)
    .map((pair): [string, string] => [pair.slice(0, pair.indexOf(':')), pair.slice(pair.indexOf(':') + 1)]),
)

/** The most letters of a word that is stemmed, because the time grows with the square of the letters. */
const maxWordLength = 40

/** A light English stemmer for plurals, past and progressive forms, adverbs and a few noun endings. */
export function stem(text: string): string {
  const regular = irregularForms.get(text)
  if (regular !== undefined) return stem(regular)
  if (text.length < 4 || text.length > maxWordLength || !/^[a-z]+$/.test(text)) return text
  const singular = text
    .replace(/(ss|sh|ch|x|z|o)es$/, '$1')
    .replace(/([^aeiou])ies$/, '$1y')
    .replace(/([^sui])s$/, '$1')
  const ending = /^(?<root>[a-z]*[aeiouy][a-z]+?)(?:ing|ed|ingly|edly)$/.exec(singular)?.groups?.['root']
  const root = ending === undefined ? singular : ending.replace(/([bdfgmnprt])\1$/, '$1')
  return root
    .replace(/iness$/, 'y')
    .replace(/(?<=[a-z]{4})ness$/, '')
    .replace(/(?<=[a-z]{3})ily$/, 'y')
    .replace(/(?<=[a-z]{4})ly$/, '')
    .replace(/(?<=[a-z]{4})ation$/, 'at')
    .replace(/(?<=[a-z]{3})is(e|ation)$/, 'iz')
    .replace(/(?<=[a-z]{2}[^e])e$/, '')
    .replace(/(?<=[^aeiou])y$/, 'i')
}
