import { bookOf, cardOf, entryOf, type Fields, loreCard, plainEntry, talk, thirdOf, worldFile } from './cards.ts'
import type { Compared } from './case.ts'

type Case = Omit<Compared, 'area'>

const hello = talk('Hello there.')
const water = talk('Tell me about water.')
const long = talk('one', 'two', 'three', 'four', 'five', 'six', 'seven')

/** Every case of the comparison, area by area. */
export const cases: readonly Compared[] = Object.entries({
  'card fields': fieldCases(),
  examples: exampleCases(),
  greetings: greetingCases(),
  macros: macroCases(),
  'lore: keys': keyCases(),
  'lore: places': placeCases(),
  'lore: recursion and chance': recursionCases(),
  'lore: time': timeCases(),
  'lore: world books': worldCases(),
  'persona and note': playerCases(),
  conversation: conversationCases(),
} satisfies Record<string, readonly Case[]>).flatMap(([area, list]) => list.map((each) => ({ area, ...each })))

function fieldCases(): readonly Case[] {
  const named = {
    description: '{{char}} and {{user}}',
    personality: 'of {{char}}',
    scenario: 'with {{user}}',
    first_mes: '{{user}}!',
    system_prompt: 'Be {{char}}.',
    post_history_instructions: 'For {{user}}.',
    mes_example: '<START>\n{{user}}: {{char}}?\n{{char}}: {{user}}!',
  }
  const all = {
    description: 'Fern tends plants.',
    personality: 'patient',
    scenario: 'A greenhouse at dusk.',
    first_mes: 'Come in.',
    mes_example: '<START>\n{{user}}: Hi\n{{char}}: Ho',
  }
  return [
    { name: 'V1, all fields', card: { name: 'Fern', ...all }, messages: hello },
    { name: 'V2, all fields of V1', card: cardOf(all), messages: hello },
    { name: 'V3, all fields of V1', card: thirdOf(all), messages: hello },
    { name: 'name and description alone', card: cardOf({ first_mes: '' }), messages: hello },
    { name: 'macros in every field', card: cardOf(named), messages: hello },
    { name: 'system prompt', card: cardOf({ system_prompt: 'You are {{char}}.' }), messages: hello },
    {
      name: 'system prompt with {{original}}',
      card: cardOf({ system_prompt: 'First.\n{{original}}\nLast.' }),
      messages: hello,
    },
    { name: 'system prompt of blanks', card: cardOf({ system_prompt: '  \n ' }), messages: hello },
    {
      name: 'post-history instructions',
      card: cardOf({ post_history_instructions: 'Stay kind, {{char}}.' }),
      messages: talk('Hello.', 'Hi.', 'And now?'),
    },
    {
      name: 'post-history with {{original}}, of which there is none',
      card: cardOf({ post_history_instructions: '{{original}}Stay kind.' }),
      messages: hello,
    },
    { name: 'line breaks of Windows', card: cardOf({ description: 'One.\r\nTwo.\r\n\r\nThree.' }), messages: hello },
    {
      name: 'blanks around fields',
      card: cardOf({ description: '\n  Fern.  \n', scenario: ' Dusk. ' }),
      messages: hello,
    },
    {
      name: "creator's notes, tags and version are not sent",
      card: cardOf({ creator_notes: 'Secret.', tags: ['plant'], creator: 'Ada', character_version: '7' }),
      messages: hello,
    },
    {
      name: 'a card in Chinese',
      card: cardOf({
        name: '小蕨',
        description: '{{char}}照看温室。',
        personality: '耐心',
        first_mes: '{{user}}，你好。',
      }),
      userName: '阿达',
      messages: talk('叶子为什么发黄？'),
    },
    {
      name: "character's note at depth 2",
      card: cardOf({ extensions: { depth_prompt: { prompt: 'Deep, {{user}}.', depth: 2, role: 'system' } } }),
      messages: talk('a', 'b', 'c'),
    },
    {
      name: "character's note at depth 0, of the user",
      card: cardOf({ extensions: { depth_prompt: { prompt: 'Now.', depth: 0, role: 'user' } } }),
      messages: talk('a', 'b', 'c'),
    },
    {
      name: "character's note deeper than the conversation",
      card: cardOf({ extensions: { depth_prompt: { prompt: 'Old.', depth: 40, role: 'system' } } }),
      messages: talk('a', 'b', 'c'),
    },
    {
      name: 'note at depth 0 before post-history',
      card: cardOf({
        post_history_instructions: 'After.',
        extensions: { depth_prompt: { prompt: 'Before.', depth: 0, role: 'system' } },
      }),
      messages: hello,
    },
    {
      name: 'nickname',
      card: thirdOf({ nickname: 'Fernie', description: '{{char}} tends plants.' }),
      messages: hello,
      otherwise: 'V3: a nickname must be the value of {{char}}. SillyTavern does not know nicknames.',
    },
    {
      name: '{{original}} twice',
      card: cardOf({ system_prompt: '{{original}}|{{original}}' }),
      messages: hello,
      otherwise:
        'V2 makes no difference between the first {{original}} and the others. SillyTavern sends nothing for the others.',
    },
    {
      name: "creator's notes by a macro",
      card: cardOf({ description: 'Fern. {{creatorNotes}}', creator_notes: 'Secret.' }),
      messages: hello,
      otherwise: "V2: a creator's notes must not be in a prompt. SillyTavern sends them where the card has the macro.",
    },
  ]
}

function exampleCases(): readonly Case[] {
  const block = (text: string, more: object = {}) => ({ card: cardOf({ mes_example: text }), messages: hello, ...more })
  return [
    { name: 'one block', ...block('<START>\n{{user}}: Hi\n{{char}}: Ho') },
    {
      name: 'three blocks',
      ...block('<START>\n{{user}}: a\n{{char}}: b\n<START>\n{{char}}: c\n<START>\n{{user}}: d\n{{char}}: e'),
    },
    { name: 'no marker', ...block('{{user}}: Hi\n{{char}}: Ho') },
    {
      name: 'the marker in small letters',
      ...block('<start>\n{{user}}: Hi\n{{char}}: Ho'),
      otherwise: 'Blank blocks vanish. SillyTavern sends one more separator where the first marker is not in capitals.',
    },
    { name: 'the marker alone', ...block('<START>') },
    { name: 'lines that go on', ...block('<START>\n{{user}}: one\ntwo\n\nthree\n{{char}}: four\nfive') },
    { name: 'more colons in a line', ...block('<START>\n{{user}}: at 10:30: tea?\n{{char}}: yes: at 10:30') },
    { name: 'names as the author wrote them', ...block('<START>\nAda: Hi\nFern: Ho') },
    {
      name: 'a block without a speaker',
      ...block('<START>\nThe rain falls.\n<START>\n{{user}}: Hi\n{{char}}: Ho'),
      otherwise:
        'V1: example dialogue is part of every prompt, so a block without a speaker is kept as text. SillyTavern drops it.',
    },
    {
      name: 'text before the first speaker',
      ...block('<START>\nIt rains.\n{{user}}: Hi\n{{char}}: Ho'),
      otherwise:
        "Text before the first speaker is nobody's words, and is sent as a message of its own. SillyTavern puts it into the first speaker's.",
    },
    {
      name: 'one speaker twice',
      ...block('<START>\n{{char}}: one\n{{char}}: two\n{{user}}: three'),
      otherwise:
        'Each line with a name is a message of its own. SillyTavern joins the lines of one speaker and leaves the second name in the text.',
    },
    {
      name: 'a full-width colon after the name',
      ...block('<START>\n{{user}}：你好\n{{char}}：欢迎'),
      otherwise:
        'A full-width colon names a speaker too, since most Chinese cards have it. SillyTavern knows the other colon alone, and drops the block.',
    },
  ]
}

function greetingCases(): readonly Case[] {
  const several = cardOf({ first_mes: 'First, {{user}}.', alternate_greetings: ['Second, {{char}}.', 'Third.'] })
  return [
    { name: 'the first', card: several, messages: hello },
    { name: 'the second', card: several, greeting: 1, messages: hello },
    { name: 'the third', card: several, greeting: 2, messages: talk('a', 'b', 'c') },
    { name: 'none', card: cardOf({ first_mes: '' }), messages: hello },
    { name: 'no first, but others', card: cardOf({ first_mes: '', alternate_greetings: ['Other.'] }), messages: hello },
    { name: 'sent by the client', card: several, echo: 'First, Ada.', messages: talk('a', 'b', 'c') },
    { name: 'another one sent by the client', card: several, greeting: 1, echo: 'Second, Fern.', messages: hello },
    { name: 'with line breaks and asterisks', card: cardOf({ first_mes: '*Smiles.*\r\n\r\n"Hi."' }), messages: hello },
  ]
}

function macroCases(): readonly Case[] {
  const text = (description: string, more: object = {}) => ({ card: cardOf({ description }), messages: hello, ...more })
  return [
    { name: 'names in every form', ...text('{{char}} {{user}} {{CHAR}} <USER> <BOT> <char> {{ user }}') },
    { name: '{{newline}}', ...text('a{{newline}}b') },
    { name: '{{newline::2}}', ...text('a{{newline::2}}b') },
    { name: '{{trim}}', ...text('a\n\n{{trim}}\n\nb') },
    { name: '{{noop}}', ...text('a{{noop}}b') },
    { name: 'a comment', ...text('a{{// nothing of this}}b') },
    { name: '{{reverse:…}}', ...text('{{reverse:abc}}') },
    { name: '{{random}} and {{pick}} of one', ...text('{{random::one}} {{pick::one}} {{random:one}}') },
    { name: '{{roll}} of one side', ...text('{{roll:1}} {{roll:d1}} {{roll:3d1}} {{roll 2d1}}') },
    { name: '{{roll}} with arithmetic', ...text('{{roll:2d1+3}}') },
    { name: 'date and weekday', ...text('{{date}} {{weekday}} {{isodate}}') },
    {
      name: '{{persona}}',
      ...text('[{{persona}}]', { persona: 'Ada is a botanist.' }),
      otherwise: "The persona's macro has a value in all of a card's texts. In them SillyTavern puts nothing for it.",
    },
    {
      name: '{{description}} and others in a prompt',
      card: cardOf({
        personality: 'calm',
        scenario: 'dusk',
        system_prompt: '{{personality}} {{scenario}} {{description}}',
      }),
      messages: hello,
      otherwise:
        "The macros for a card's own texts have a value in all of its texts. In system prompts SillyTavern puts nothing for them.",
    },
    { name: '{{if}}', ...text('{{if user}}yes{{/if}} {{if persona}}no{{else}}other{{/if}}') },
    { name: '{{charIfNotGroup}}, {{group}}, {{notChar}}', ...text('{{charIfNotGroup}} {{group}} {{notChar}}') },
    {
      name: '{{lastMessage}} and its kin',
      ...text('{{lastMessage}}|{{lastUserMessage}}|{{lastCharMessage}}', { messages: talk('a', 'b', 'c') }),
    },
    { name: '{{datetimeformat}}', ...text('{{datetimeformat YYYY-MM-DD}}') },
    { name: 'an unknown macro', ...text('a {{flourish}} b') },
    { name: 'nested macros', ...text('{{reverse:{{user}}}} {{random::{{char}}}}') },
    { name: 'braces that are none', ...text('{ {{char}} } {{ {user}') },
    {
      name: "in the user's words",
      card: cardOf({}),
      messages: talk('I am {{user}}, you are {{char}}.'),
      otherwise:
        "A request's messages are sent as they are: expanding them would let a chat's user print the card ({{description}}).",
    },
    {
      name: '{{hidden_key:…}}',
      ...text('a{{hidden_key:b}}c'),
      otherwise:
        'V3: it stands for nothing, and its text counts for lore. SillyTavern does not know it and sends it as it is written.',
    },
    {
      name: 'variables',
      ...text('{{setvar::mood::calm}}[{{getvar::mood}}]'),
      otherwise:
        'The service keeps nothing of a conversation, so it has no variables; they stay as written and are listed in unknown_macros.',
    },
  ]
}

function keyCases(): readonly Case[] {
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
    { name: 'a key that is said, and one that is not', ...lore(entryOf('water', 'Wet.'), entryOf('sand', 'Dry.')) },
    { name: 'the second of several keys', ...lore(entryOf('sand,water', 'Wet.')) },
    { name: 'letters of the other case', ...lore(entryOf('WATER', 'Wet.')) },
    {
      name: 'case that counts',
      ...lore(entryOf('Water', 'No.', { case_sensitive: true }), entryOf('Tell', 'Yes.', { case_sensitive: true })),
    },
    { name: 'whole words by default', ...lore(entryOf('wat', 'No.'), entryOf('water', 'Yes.')) },
    { name: 'parts of words where the entry says so', ...lore(entryOf('wat', 'Yes.', { match_whole_words: false })) },
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
      name: "in the character's words",
      card: loreCard([entryOf('rain', 'Yes.')]),
      messages: talk('Hm?', 'The rain.', 'Go on.'),
    },
    { name: 'in the greeting', card: loreCard([entryOf('welcome', 'Yes.')]), messages: hello },
    {
      name: 'four messages are looked at',
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
      name: 'the description is looked at',
      card: loreCard([entryOf('greenhouse', 'Yes.', { match_character_description: true })]),
      messages: hello,
    },
    {
      name: 'personality, scenario and note are looked at',
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
      name: 'the persona is looked at',
      card: loreCard([entryOf('botanist', 'Yes.', { match_persona_description: true })]),
      messages: hello,
      persona: 'Ada is a botanist.',
    },
    {
      name: '@@activate and @@dont_activate',
      ...lore(entryOf('sand', '@@activate\nYes.'), entryOf('water', '@@dont_activate\nNo.')),
    },
    {
      name: 'a name before what is said',
      card: loreCard([entryOf('Ada', 'Yes.')]),
      messages: hello,
      tavernSettings: { world_info_include_names: true },
      otherwise:
        'V3 looks for keys in what was said. SillyTavern, unless told otherwise, puts "Name: " before it, so that a name as a key always fires.',
    },
    {
      name: 'parts of words in an entry of a specification',
      ...lore(plainEntry('wat', 'Yes.', { position: 'before_char' })),
      otherwise:
        'V2 and V3: a key that the text contains is a match. SillyTavern wants whole words of entries that do not say.',
    },
    {
      name: "a book's own scan depth",
      card: cardOf({ character_book: bookOf([entryOf('six', 'No.')], { scan_depth: 1 }) }),
      messages: long,
      otherwise:
        "V2 and V3: a book's scan_depth is how many messages are looked at. SillyTavern reads its own setting alone.",
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
        'V2 and V3: recursive_scanning false means that lore calls for no lore. SillyTavern reads its own setting alone.',
    },
    {
      name: 'a look behind in a regular expression',
      ...lore(entryOf('/(?<=about )water/', 'Yes.')),
      otherwise:
        "Regular expressions run in linear time, without look-around, since cards are strangers' and one could hold up everybody. The upload says so.",
    },
  ]
}

function placeCases(): readonly Case[] {
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
      name: 'several by their order',
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
      name: 'several at one depth by their order',
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
      name: "above an author's note that there is not",
      card: loreCard([at(2, 'Top.', 1)]),
      messages: talk('a', 'b', 'water', 'd', 'e'),
    },
    {
      name: "below an author's note that there is not",
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
        'A matched entry is never dropped for its form. SillyTavern drops text beside the examples that names no speaker.',
    },
    {
      name: 'several of one order',
      card: loreCard([at(0, 'first', 5), at(0, 'second', 5)]),
      messages: water,
      otherwise: 'Entries of one order stand as in the file. SillyTavern turns them round.',
    },
    {
      name: 'roles at one depth',
      card: loreCard([at(4, 'System.', 1, { depth: 1, role: 0 }), at(4, 'Assistant.', 2, { depth: 1, role: 2 })]),
      messages: three,
      otherwise:
        "insertion_order decides at a depth too. SillyTavern puts the assistant's first, then the user's, then the system's (its users complain: #4356).",
    },
    {
      name: "lore and the character's note at one depth",
      card: loreCard([at(4, 'Lore.', 1, { depth: 1 })], {
        extensions: { depth_prompt: { prompt: 'Note.', depth: 1, role: 'system' } },
      }),
      messages: three,
      otherwise:
        "The character's note, which the author placed for every turn, stands nearer to the end. SillyTavern sorts by the names of its own fields.",
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

function recursionCases(): readonly Case[] {
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
    { name: 'lore calls for lore', ...chain({}) },
    { name: 'that is not called for by lore', ...chain({ exclude_recursion: true }) },
    { name: 'that calls for none', ...chain({}, { prevent_recursion: true }) },
    {
      name: 'not before other lore has fired',
      card: loreCard([
        entryOf('water', 'Of rain.', {}, { insertion_order: 1 }),
        entryOf('tell', 'Told.', { delay_until_recursion: true }, { insertion_order: 2 }),
        entryOf('rain', 'Yes.', { delay_until_recursion: true }, { insertion_order: 3 }),
      ]),
      messages: water,
    },
    {
      name: 'not before other lore has fired, and none has',
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
      name: 'constant, only in recursion',
      card: loreCard([
        entryOf('water', 'Of rain.', {}, { insertion_order: 1 }),
        entryOf('', 'Constant.', { delay_until_recursion: true }, { keys: [], constant: true, insertion_order: 2 }),
      ]),
      messages: water,
    },
    {
      name: 'a key in the conversation and a secondary in lore',
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
      name: 'a group in which one overrides',
      ...group(of('a', {}, 1), of('b', { group_override: true }, 2), of('c', {}, 3)),
    },
    {
      name: 'a group in which two override',
      ...group(of('a', { group_override: true }, 1), of('b', { group_override: true }, 2)),
    },
    {
      name: 'a group with weights 100 and 0',
      ...group(of('Yes.', { group_weight: 100 }, 2), of('No.', { group_weight: 0 }, 1)),
    },
    { name: 'a group of one', ...group(of('Yes.', {})) },
    {
      name: 'a group that lore calls for again',
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
        'Whatever lost against an entry stays away. In SillyTavern the losers come back in the recursion, which does not know an entry of two groups again.',
    },
    {
      name: 'a budget for two of three',
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
      name: 'a budget for none',
      card: cardOf({ character_book: bookOf([entryOf('water', ' wet'.repeat(50))], { token_budget: 20 }) }),
      messages: water,
      tavernSettings: { world_info_budget_cap: 20 },
    },
  ]
}

function timeCases(): readonly Case[] {
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
    { name: 'delay, too early', ...timed({ delay: 3 }, talk('water')) },
    { name: 'delay, late enough', ...timed({ delay: 2 }, talk('water')) },
  ]
}

function worldCases(): readonly Case[] {
  const file = (...entries: Parameters<typeof worldFile>[0]) => [{ file: worldFile(entries) }]
  const plain = { card: cardOf({}), messages: water }
  const wet = { key: ['water'], content: 'Wet.' }
  const filter = (names: readonly string[], isExclude: boolean) => ({ characterFilter: { names, tags: [], isExclude } })
  return [
    { name: 'a world file', ...plain, worlds: file(wet) },
    {
      name: "a world file beside the character's book",
      card: loreCard([entryOf('water', 'Own.', {}, { insertion_order: 20 })]),
      messages: water,
      worlds: file({ ...wet, order: 10 }, { ...wet, content: 'Last.', order: 30 }),
    },
    {
      name: "a world file that the character's book calls for",
      card: loreCard([entryOf('water', 'It comes as rain.', {}, { insertion_order: 2 })]),
      messages: water,
      worlds: file({ key: ['rain'], content: 'Rain.', order: 1 }),
    },
    { name: 'a world file at depth', ...plain, worlds: file({ ...wet, position: 4, depth: 1, role: 1 }) },
    {
      name: 'a world file with secondary keys and groups',
      ...plain,
      worlds: file(
        { ...wet, keysecondary: ['tell'], group: 'g', groupOverride: true, order: 1 },
        { ...wet, content: 'No.', group: 'g', order: 2 },
        { ...wet, content: 'No.', keysecondary: ['moon'], order: 3 },
      ),
    },
    { name: 'an entry for this character', ...plain, worlds: file({ ...wet, ...filter(['Fern'], false) }) },
    { name: 'an entry for another character', ...plain, worlds: file({ ...wet, ...filter(['Mallow'], false) }) },
    { name: 'an entry for all but this character', ...plain, worlds: file({ ...wet, ...filter(['Fern'], true) }) },
    { name: 'an entry for normal answers', ...plain, worlds: file({ ...wet, triggers: ['normal'] }) },
    { name: 'an entry for continuations alone', ...plain, worlds: file({ ...wet, triggers: ['continue'] }) },
    { name: 'an entry that is switched off', ...plain, worlds: file({ ...wet, disable: true }) },
    { name: 'a chance of 0', ...plain, worlds: file({ ...wet, probability: 0 }) },
    { name: 'a lorebook in the request', ...plain, worlds: [{ book: bookOf([entryOf('water', 'Wet.')]) }] },
    {
      name: 'two lorebooks in the request',
      ...plain,
      worlds: [
        { book: bookOf([entryOf('water', 'One.', {}, { insertion_order: 1 })]) },
        { book: bookOf([entryOf('water', 'Two.', {}, { insertion_order: 2 })]) },
      ],
    },
  ]
}

function playerCases(): readonly Case[] {
  const noted = (depth: number, role: 'system' | 'user' | 'assistant', text = 'Note.') => ({
    card: cardOf({}),
    messages: talk('a', 'b', 'c'),
    note: { text, depth, role },
  })
  return [
    { name: 'persona', card: cardOf({ personality: 'calm' }), messages: hello, persona: 'Ada is a botanist.' },
    { name: 'persona with macros', card: cardOf({}), messages: hello, persona: '{{user}} knows {{char}}.' },
    {
      name: 'persona between lore and description',
      card: loreCard([entryOf('hello', 'Lore.')]),
      messages: hello,
      persona: 'Ada.',
    },
    { name: "author's note at depth 4", ...noted(4, 'system') },
    { name: "author's note at depth 1, of the user", ...noted(1, 'user') },
    { name: "author's note at depth 0", ...noted(0, 'system') },
    { name: "author's note with macros", ...noted(2, 'assistant', 'For {{user}} of {{char}}.') },
    {
      name: "author's note and the character's note at other depths",
      ...noted(1, 'system'),
      card: cardOf({ extensions: { depth_prompt: { prompt: 'Own.', depth: 2, role: 'system' } } }),
    },
  ]
}

function conversationCases(): readonly Case[] {
  const card = cardOf({})
  const end = { isContinued: true, messages: talk('Go on.', 'Once upon') }
  return [
    { name: 'ten messages', card, messages: talk('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i') },
    { name: 'two of the user in a row', card, messages: [...talk('a', 'b', 'c'), ...talk('d')] },
    {
      name: 'two of the character in a row',
      card,
      messages: [...talk('a', 'b'), { role: 'assistant', content: 'c' }, ...talk('d')],
    },
    { name: 'a name before the words', card, messages: talk('Ada: hello', 'Hi.', 'Fern: what?') },
    { name: 'a full-width colon in the words', card, messages: talk('阿达：你好', '你好。', '再见：好') },
    {
      name: 'an empty message in the middle',
      card,
      messages: [...talk('a', 'b'), { role: 'user', content: '' }, ...talk('c')],
    },
    { name: 'text with tags and code', card, messages: talk('Is <b>1 < 2</b> & `x = {y: 1}`?') },
    { name: 'a continuation', card, ...end },
    { name: 'a continuation with post-history', card: cardOf({ post_history_instructions: 'After.' }), ...end },
    {
      name: 'a continuation with a note at depth 0',
      card: cardOf({ extensions: { depth_prompt: { prompt: 'Deep.', depth: 0, role: 'system' } } }),
      ...end,
    },
    {
      name: 'a continuation with lore at depth 1',
      card: loreCard([entryOf('once', 'Lore.', { position: 4, depth: 1 })]),
      ...end,
      otherwise:
        'V3: one message stands after what is at depth 1, and a reply that was begun is one. SillyTavern takes that reply out before it counts.',
    },
    {
      name: 'an entry for continuations',
      card: cardOf({}),
      ...end,
      worlds: [{ file: worldFile([{ key: ['once'], content: 'Lore.', triggers: ['continue'] }]) }],
    },
  ]
}
