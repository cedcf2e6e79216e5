import { bookOf, cardOf, entryOf, type Fields, loreCard, plainEntry, talk } from './cards.ts'
import type { Case, Compared } from './case.ts'

const hello = talk('Hello there.')
const water = talk('Tell me about water.')
const long = talk('one', 'two', 'three', 'four', 'five', 'six', 'seven')

/** Cases of which lore entries are activated. */
export function keyCases(): readonly Case[] {
  const lore = (...entries: Parameters<typeof loreCard>[0]) => ({ card: loreCard(entries), messages: water })
  const both = (name: string, selectiveLogic: number): Case => ({
    name,
    ...lore(
      entryOf('water', 'One of two.', { selectiveLogic }, { secondary_keys: ['tell', 'moon'], insertion_order: 1 }),
      entryOf('water', 'Both.', { selectiveLogic }, { secondary_keys: ['tell', 'about'], insertion_order: 2 }),
      entryOf('water', 'None.', { selectiveLogic }, { secondary_keys: ['moon', 'sun'], insertion_order: 3 }),
      entryOf('moon', 'No first key.', { selectiveLogic }, { secondary_keys: ['tell'], insertion_order: 4 }),
    ),
  })
  return [
    { name: 'a key that occurs, and a key that does not', ...lore(entryOf('water', 'Wet.'), entryOf('sand', 'Dry.')) },
    { name: 'the second of several keys', ...lore(entryOf('sand,water', 'Wet.')) },
    { name: 'a key in capital letters', ...lore(entryOf('WATER', 'Wet.')) },
    {
      name: 'case-sensitive keys',
      ...lore(entryOf('Water', 'No.', { case_sensitive: true }), entryOf('Tell', 'Yes.', { case_sensitive: true })),
    },
    { name: 'whole words by default', ...lore(entryOf('wat', 'No.'), entryOf('water', 'Yes.')) },
    { name: 'parts of words, if the entry allows them', ...lore(entryOf('wat', 'Yes.', { match_whole_words: false })) },
    { name: 'a key of two words', ...lore(entryOf('about wat', 'A part.')) },
    {
      name: 'a key in Chinese inside a sentence',
      card: loreCard([entryOf('水', '湿。')]),
      messages: talk('请告诉我浇水的事'),
    },
    {
      name: 'a key in Cyrillic',
      card: loreCard([entryOf('вода', 'Да.')]),
      messages: talk('Расскажи, что такое вода.'),
    },
    {
      name: 'a key between full-width marks',
      card: loreCard([entryOf('Fern', 'Yes.')]),
      messages: talk('你好：Fern，再见'),
    },
    both('secondary keys: any', 0),
    both('secondary keys: not all', 1),
    both('secondary keys: not any', 2),
    both('secondary keys: all', 3),
    {
      name: 'secondary keys of an entry that is not selective',
      ...lore(entryOf('water', 'Yes.', {}, { selective: false, secondary_keys: ['moon'] })),
    },
    {
      name: 'a regular expression',
      ...lore(
        entryOf('/wat(er|t)/', 'Yes.'),
        entryOf('/Water/', 'No.', {}, { insertion_order: 90 }),
        entryOf('/WATER/i', 'Also.', {}, { insertion_order: 80 }),
      ),
    },
    { name: 'a regular expression without slashes', ...lore(entryOf('wat(er)?', 'No.')) },
    {
      name: 'macros in a key',
      card: loreCard([entryOf('{{char}}', 'Yes.'), entryOf('{{user}}', 'No.')]),
      messages: talk('Is Fern there?'),
    },
    { name: 'constant', ...lore(entryOf('', 'Always.', {}, { constant: true, keys: [] })) },
    { name: 'switched off', ...lore(entryOf('water', 'No.', {}, { enabled: false })) },
    { name: 'no keys', ...lore(entryOf('', 'No.', {}, { keys: [] })) },
    { name: 'an empty body', ...lore(entryOf('water', '')) },
    { name: 'macros in a body', ...lore(entryOf('water', '{{char}} gives {{user}} water.')) },
    {
      name: 'a key in a message of the character',
      card: loreCard([entryOf('rain', 'Yes.')]),
      messages: talk('Hm?', 'The rain.', 'Go on.'),
    },
    { name: 'a key in the greeting', card: loreCard([entryOf('welcome', 'Yes.')]), messages: hello },
    {
      name: 'four messages are scanned',
      card: loreCard([entryOf('four', 'Yes.'), entryOf('three', 'No.')]),
      messages: long,
    },
    {
      name: "an entry's own scan depth",
      card: loreCard([
        entryOf('two', 'Yes.', { scan_depth: 6 }),
        entryOf('six', 'No.', { scan_depth: 1 }),
        entryOf('seven', 'None.', { scan_depth: 0 }),
      ]),
      messages: long,
    },
    {
      name: 'the description is scanned',
      card: loreCard([entryOf('greenhouse', 'Yes.', { match_character_description: true })]),
      messages: hello,
    },
    {
      name: 'personality, scenario and note are scanned',
      card: loreCard(
        [
          entryOf('calm', 'One.', { match_character_personality: true }, { insertion_order: 1 }),
          entryOf('dusk', 'Two.', { match_scenario: true }, { insertion_order: 2 }),
          entryOf('deep', 'Three.', { match_character_depth_prompt: true }, { insertion_order: 3 }),
        ],
        {
          personality: 'calm',
          scenario: 'dusk',
          extensions: { depth_prompt: { prompt: 'deep', depth: 4, role: 'system' } },
        },
      ),
      messages: hello,
    },
    {
      name: 'the persona is scanned',
      card: loreCard([entryOf('botanist', 'Yes.', { match_persona_description: true })]),
      messages: hello,
      persona: 'Ada is a botanist.',
    },
    {
      name: '@@activate and @@dont_activate',
      ...lore(entryOf('sand', '@@activate\nYes.'), entryOf('water', '@@dont_activate\nNo.')),
    },
    {
      name: 'the name of the speaker as a key',
      card: loreCard([entryOf('Ada', 'Yes.')]),
      messages: hello,
      tavernSettings: { world_info_include_names: true },
      otherwise:
        'V3: keys are searched in the messages. By default SillyTavern puts "Name: " before each message, so an entry whose key is a name is always activated.',
    },
    {
      name: "parts of words in an entry without SillyTavern's extensions",
      ...lore(plainEntry('wat', 'Yes.', { position: 'before_char' })),
      otherwise: 'V2 and V3: a key matches if the text contains it. By default SillyTavern matches only whole words.',
    },
    {
      name: "a book's own scan depth",
      card: cardOf({ character_book: bookOf([entryOf('six', 'No.')], { scan_depth: 1 }) }),
      messages: long,
      otherwise:
        'V2 and V3: the scan_depth of a book is the number of messages that are scanned. SillyTavern uses only its own setting.',
    },
    {
      name: "a book's recursion switched off",
      card: cardOf({
        character_book: bookOf([entryOf('water', 'Of rain.'), entryOf('rain', 'Chained.')], {
          recursive_scanning: false,
        }),
      }),
      messages: water,
      otherwise:
        'V2 and V3: with recursive_scanning false, lore does not trigger lore. SillyTavern uses only its own setting.',
    },
    {
      name: 'a lookbehind in a regular expression',
      ...lore(entryOf('/(?<=about )water/', 'Yes.')),
      otherwise:
        'The service runs regular expressions in linear time, without look-around, because a card of an unknown author must not block other requests. The reply to the upload names the refused expression.',
    },
  ]
}

/** Cases of the position of lore in the prompt. */
export function placeCases(): readonly Case[] {
  const at = (position: number, content: string, order: number, extensions: Fields = {}) =>
    entryOf('water', content, { position, ...extensions }, { insertion_order: order })
  const three = talk('Tell me about water.', 'Well.', 'Go on.')
  return [
    {
      name: 'before and after the character',
      card: loreCard([at(0, 'Before.', 1), at(1, 'After.', 2)]),
      messages: water,
    },
    {
      name: 'several entries in their order',
      card: loreCard([at(0, 'c', 30), at(0, 'a', 10), at(0, 'b', 20), at(0, 'z', -1)]),
      messages: water,
    },
    {
      name: 'at depth, each role',
      card: loreCard([
        at(4, 'System.', 1, { depth: 3, role: 0 }),
        at(4, 'User.', 2, { depth: 2, role: 1 }),
        at(4, 'Assistant.', 3, { depth: 1, role: 2 }),
      ]),
      messages: three,
    },
    {
      name: 'several entries at one depth, in their order',
      card: loreCard([at(4, 'b', 20, { depth: 1 }), at(4, 'a', 10, { depth: 1 })]),
      messages: three,
    },
    { name: 'at depth 0', card: loreCard([at(4, 'Now.', 1, { depth: 0 })]), messages: three },
    { name: 'deeper than the conversation', card: loreCard([at(4, 'Old.', 1, { depth: 99 })]), messages: three },
    {
      name: "around the author's note",
      card: loreCard([at(2, 'Top.', 1), at(3, 'Bottom.', 2)]),
      messages: three,
      note: { text: 'Note.', depth: 1, role: 'system' },
    },
    {
      name: "several entries around the author's note, in their order",
      card: loreCard([at(2, 'b', 20), at(3, 'd', 40), at(2, 'a', 10), at(3, 'c', 30)]),
      messages: three,
      note: { text: 'Note.', depth: 2, role: 'assistant' },
    },
    {
      name: "above and below the author's note, without an author's note",
      card: loreCard([at(2, 'Top.', 1), at(3, 'Bottom.', 2)]),
      messages: talk('a', 'b', 'water', 'd', 'e'),
    },
    {
      name: "above the author's note, without an author's note",
      card: loreCard([at(2, 'Top.', 1)]),
      messages: talk('a', 'b', 'water', 'd', 'e'),
    },
    {
      name: "below the author's note, without an author's note",
      card: loreCard([at(3, 'Bottom.', 1)]),
      messages: talk('a', 'b', 'water', 'd', 'e'),
    },
    {
      name: 'above the examples, as a dialogue',
      card: loreCard([at(5, '{{user}}: Wet?\n{{char}}: Wet.', 1)], {
        mes_example: '<START>\n{{user}}: Hi\n{{char}}: Ho',
      }),
      messages: water,
    },
    {
      name: 'below the examples, as a dialogue',
      card: loreCard([at(6, '{{user}}: Wet?\n{{char}}: Wet.', 1)], {
        mes_example: '<START>\n{{user}}: Hi\n{{char}}: Ho',
      }),
      messages: water,
    },
    {
      name: 'beside the examples, as plain text',
      card: loreCard([at(5, 'Above.', 1), at(6, 'Below.', 2)], { mes_example: '<START>\n{{user}}: Hi\n{{char}}: Ho' }),
      messages: water,
      otherwise:
        'The service never drops an activated entry because of its form. SillyTavern drops text beside the examples that names no speaker.',
    },
    {
      name: 'several entries with the same order',
      card: loreCard([at(0, 'first', 5), at(0, 'second', 5)]),
      messages: water,
      otherwise: 'Entries with the same insertion_order have the order of the file. SillyTavern reverses them.',
    },
    {
      name: 'roles at one depth',
      card: loreCard([at(4, 'System.', 1, { depth: 1, role: 0 }), at(4, 'Assistant.', 2, { depth: 1, role: 2 })]),
      messages: three,
      otherwise:
        'insertion_order applies at a depth too. SillyTavern puts messages of the assistant first, then of the user, then of the system (its issue #4356 is a complaint about that).',
    },
    {
      name: "lore and the character's note at one depth",
      card: loreCard([at(4, 'Lore.', 1, { depth: 1 })], {
        extensions: { depth_prompt: { prompt: 'Note.', depth: 1, role: 'system' } },
      }),
      messages: three,
      otherwise:
        "The character's note, which the author wrote for every turn, stands nearer to the end. SillyTavern sorts by the names of its fields.",
    },
    {
      name: 'an outlet',
      card: loreCard([entryOf('water', 'Out.', { position: 7, outlet_name: 'here' })], {
        system_prompt: 'Be Fern. {{outlet::here}}',
      }),
      messages: water,
      otherwise:
        'Outlets are not supported: the receipt names the entry as dropped for its position, and the macro as unknown.',
    },
  ]
}

/** Cases of recursion, chance, groups and budgets. */
export function recursionCases(): readonly Case[] {
  const chain = (second: Fields, first: Fields = {}) => ({
    card: loreCard([
      entryOf('water', 'It comes as rain.', first, { insertion_order: 1 }),
      entryOf('rain', 'Rain falls.', second, { insertion_order: 2 }),
    ]),
    messages: water,
  })
  const group = (...entries: Parameters<typeof loreCard>[0]) => ({ card: loreCard(entries), messages: water })
  const of = (content: string, extensions: Fields, insertion_order = 100) =>
    entryOf('water', content, { group: 'g', ...extensions }, { insertion_order })
  return [
    { name: 'lore that activates lore', ...chain({}) },
    { name: 'an entry that is excluded from recursion', ...chain({ exclude_recursion: true }) },
    { name: 'an entry that prevents recursion', ...chain({}, { prevent_recursion: true }) },
    {
      name: 'entries that are delayed until recursion',
      card: loreCard([
        entryOf('water', 'Of rain.', {}, { insertion_order: 1 }),
        entryOf('tell', 'Told.', { delay_until_recursion: true }, { insertion_order: 2 }),
        entryOf('rain', 'Yes.', { delay_until_recursion: true }, { insertion_order: 3 }),
      ]),
      messages: water,
    },
    {
      name: 'an entry that is delayed until recursion, without other lore',
      card: loreCard([entryOf('water', 'Delayed.', { delay_until_recursion: true })]),
      messages: water,
    },
    {
      name: 'levels of recursion',
      card: loreCard([
        entryOf('water', 'Of rain.', {}, { insertion_order: 1 }),
        entryOf('rain', 'One.', { delay_until_recursion: 1 }, { insertion_order: 2 }),
        entryOf('rain', 'Two.', { delay_until_recursion: 2 }, { insertion_order: 3 }),
      ]),
      messages: water,
    },
    {
      name: 'a constant entry that is delayed until recursion',
      card: loreCard([
        entryOf('water', 'Of rain.', {}, { insertion_order: 1 }),
        entryOf('', 'Constant.', { delay_until_recursion: true }, { keys: [], constant: true, insertion_order: 2 }),
      ]),
      messages: water,
    },
    {
      name: 'a key in the conversation and a secondary key in lore',
      card: loreCard([
        entryOf('water', 'Of rain.', {}, { insertion_order: 1 }),
        entryOf('tell', 'Both.', {}, { secondary_keys: ['rain'], insertion_order: 2 }),
      ]),
      messages: water,
    },
    {
      name: 'a chance of 100 and of 0',
      ...group(entryOf('water', 'Yes.', { probability: 100 }), entryOf('water', 'No.', { probability: 0 })),
    },
    {
      name: 'a chance of 0 that is switched off',
      ...group(entryOf('water', 'Yes.', { probability: 0, useProbability: false })),
    },
    {
      name: 'a group in which one entry overrides',
      ...group(of('a', {}, 1), of('b', { group_override: true }, 2), of('c', {}, 3)),
    },
    {
      name: 'a group in which two entries override',
      ...group(of('a', { group_override: true }, 1), of('b', { group_override: true }, 2)),
    },
    {
      name: 'a group with weights 100 and 0',
      ...group(of('Yes.', { group_weight: 100 }, 2), of('No.', { group_weight: 0 }, 1)),
    },
    { name: 'a group of one entry', ...group(of('Yes.', {})) },
    {
      name: 'a group with an entry that recursion finds later',
      card: loreCard([of('Of rain.', {}), entryOf('rain', 'Later.', { group: 'g' })]),
      messages: water,
    },
    {
      name: 'an entry in two groups',
      ...group(
        of('Both.', { group: 'g, h', group_override: true }, 3),
        of('g', {}, 2),
        entryOf('water', 'h', { group: 'h' }, { insertion_order: 1 }),
      ),
      otherwise:
        'Entries that lost against another entry of their group stay out. In SillyTavern they come back in the recursion, which does not recognise an entry of two groups.',
    },
    {
      name: 'a budget for two of three entries',
      card: cardOf({
        character_book: bookOf(
          [10, 30, 20].map((insertion_order) =>
            entryOf('water', `${insertion_order}${' wet'.repeat(50)}`, {}, { insertion_order }),
          ),
          { token_budget: 120 },
        ),
      }),
      messages: water,
      tavernSettings: { world_info_budget_cap: 120 },
    },
    {
      name: 'a budget for no entry',
      card: cardOf({ character_book: bookOf([entryOf('water', ' wet'.repeat(50))], { token_budget: 20 }) }),
      messages: water,
      tavernSettings: { world_info_budget_cap: 20 },
    },
  ]
}

/** Cases of lore that depends on earlier messages. */
export function timeCases(): readonly Case[] {
  const timed = (extensions: Fields, messages: Compared['messages']): Pick<Case, 'card' | 'messages'> => ({
    card: loreCard([entryOf('water', 'Timed.', { scan_depth: 1, ...extensions })]),
    messages,
  })
  const after = talk('water', 'b', 'c', 'd', 'e')
  return [
    { name: 'sticky, still on', ...timed({ sticky: 4 }, talk('water', 'b', 'c')) },
    { name: 'sticky, no longer on', ...timed({ sticky: 2 }, after) },
    { name: 'sticky, last turn', ...timed({ sticky: 3 }, talk('water', 'b', 'c')) },
    { name: 'cooldown, still off', ...timed({ cooldown: 4 }, talk('water', 'b', 'water')) },
    { name: 'cooldown, on again', ...timed({ cooldown: 2 }, talk('water', 'b', 'water')) },
    { name: 'sticky, then cooldown', ...timed({ sticky: 2, cooldown: 4 }, talk('water', 'b', 'water')) },
    {
      name: 'sticky, then cooldown, then on',
      ...timed({ sticky: 2, cooldown: 2 }, talk('water', 'b', 'water', 'd', 'water')),
    },
    {
      name: 'sticky in a group',
      card: loreCard([
        entryOf('water', 'Sticky.', { scan_depth: 1, sticky: 9, group: 'g' }),
        entryOf('sand', 'Other.', { scan_depth: 1, group: 'g', group_override: true }),
      ]),
      messages: talk('water', 'b', 'sand'),
    },
    {
      name: 'sticky in a group, and the entry that lost stays off',
      card: loreCard([
        entryOf('water', 'Sticky.', { scan_depth: 1, sticky: 9, group: 'g' }, { insertion_order: 1 }),
        entryOf(
          'water',
          'Wins.',
          { scan_depth: 1, sticky: 9, group: 'g', group_override: true },
          { insertion_order: 2 },
        ),
      ]),
      messages: talk('water', 'b', 'sand'),
    },
    { name: 'delay, too early', ...timed({ delay: 3 }, talk('water')) },
    { name: 'delay, late enough', ...timed({ delay: 2 }, talk('water')) },
  ]
}
