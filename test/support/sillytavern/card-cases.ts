import { cardOf, entryOf, loreCard, talk, thirdOf, worldFile } from './cards.ts'
import type { Case } from './case.ts'

const hello = talk('Hello there.')

/** Cases of a card's fields. */
export function fieldCases(): readonly Case[] {
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
      name: 'post-history with {{original}}, which has no value',
      card: cardOf({ post_history_instructions: '{{original}}Stay kind.' }),
      messages: hello,
    },
    { name: 'Windows line breaks', card: cardOf({ description: 'One.\r\nTwo.\r\n\r\nThree.' }), messages: hello },
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
      otherwise: 'V2: every {{original}} is replaced. SillyTavern replaces only the first, and removes the others.',
    },
    {
      name: "creator's notes in a macro",
      card: cardOf({ description: 'Fern. {{creatorNotes}}', creator_notes: 'Secret.' }),
      messages: hello,
      otherwise: "V2: the creator's notes must not be in a prompt. SillyTavern sends them if the card has the macro.",
    },
  ]
}

/** Cases of example dialogues. */
export function exampleCases(): readonly Case[] {
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
      otherwise:
        'The service drops blank blocks. SillyTavern sends another separator if the first marker is not in capitals.',
    },
    { name: 'the marker alone', ...block('<START>') },
    { name: 'texts of several lines', ...block('<START>\n{{user}}: one\ntwo\n\nthree\n{{char}}: four\nfive') },
    { name: 'more colons in a line', ...block('<START>\n{{user}}: at 10:30: tea?\n{{char}}: yes: at 10:30') },
    { name: 'names as the author wrote them', ...block('<START>\nAda: Hi\nFern: Ho') },
    {
      name: 'a block without a speaker',
      ...block('<START>\nThe rain falls.\n<START>\n{{user}}: Hi\n{{char}}: Ho'),
      otherwise:
        'V1: example dialogue is part of every prompt, so the service keeps a block without a speaker as text. SillyTavern drops the block.',
    },
    {
      name: 'text before the first speaker',
      ...block('<START>\nIt rains.\n{{user}}: Hi\n{{char}}: Ho'),
      otherwise:
        'Text before the first speaker belongs to no speaker, so the service sends it as a separate message. SillyTavern adds it to the message of the first speaker.',
    },
    {
      name: 'one speaker twice',
      ...block('<START>\n{{char}}: one\n{{char}}: two\n{{user}}: three'),
      otherwise:
        'Each line with a name is a separate message. SillyTavern joins the lines of one speaker and leaves the second name in the text.',
    },
    {
      name: 'a full-width colon after the name',
      ...block('<START>\n{{user}}：你好\n{{char}}：欢迎'),
      otherwise:
        'A full-width colon names a speaker too, because most Chinese cards have it. SillyTavern supports only the ASCII colon, and drops the block.',
    },
  ]
}

/** Cases of greetings. */
export function greetingCases(): readonly Case[] {
  const several = cardOf({ first_mes: 'First, {{user}}.', alternate_greetings: ['Second, {{char}}.', 'Third.'] })
  return [
    { name: 'the first', card: several, messages: hello },
    { name: 'the second', card: several, greeting: 1, messages: hello },
    { name: 'the third', card: several, greeting: 2, messages: talk('a', 'b', 'c') },
    { name: 'no greeting', card: cardOf({ first_mes: '' }), messages: hello },
    {
      name: 'no first greeting, but others',
      card: cardOf({ first_mes: '', alternate_greetings: ['Other.'] }),
      messages: hello,
    },
    { name: 'sent by the client', card: several, echo: 'First, Ada.', messages: talk('a', 'b', 'c') },
    { name: 'another one sent by the client', card: several, greeting: 1, echo: 'Second, Fern.', messages: hello },
    { name: 'with line breaks and asterisks', card: cardOf({ first_mes: '*Smiles.*\r\n\r\n"Hi."' }), messages: hello },
  ]
}

/** Cases of macros. */
export function macroCases(): readonly Case[] {
  const text = (description: string, more: object = {}) => ({ card: cardOf({ description }), messages: hello, ...more })
  return [
    { name: 'names in every form', ...text('{{char}} {{user}} {{CHAR}} <USER> <BOT> <char> {{ user }}') },
    { name: '{{newline}}', ...text('a{{newline}}b') },
    { name: '{{newline::2}}', ...text('a{{newline::2}}b') },
    {
      name: '{{newline}} and {{space}} with other numbers',
      ...text('a{{newline::0}}b{{space::3}}c{{space}}d{{newline 2}}e'),
    },
    { name: 'a number of line breaks that is no number', ...text('a{{newline::x}}b') },
    { name: 'a comment with an end', ...text('a{{//}}b\n{{char}}{{///}}c') },
    { name: 'comments in a comment', ...text('a{{//}}b{{//}}c{{///}}d{{///}}e') },
    { name: 'a comment in a condition', ...text('{{if 1}}a{{//}}b{{///}}c{{else}}d{{/if}}') },
    { name: '{{trim}}', ...text('a\n\n{{trim}}\n\nb') },
    { name: '{{noop}}', ...text('a{{noop}}b') },
    { name: 'a comment', ...text('a{{// nothing of this}}b') },
    { name: '{{reverse:…}}', ...text('{{reverse:abc}}') },
    { name: '{{random}} and {{pick}} of one value', ...text('{{random::one}} {{pick::one}} {{random:one}}') },
    { name: '{{roll}} of one side', ...text('{{roll:1}} {{roll:d1}} {{roll:3d1}} {{roll 2d1}}') },
    { name: '{{roll}} with arithmetic', ...text('{{roll:2d1+3}}') },
    { name: 'date and weekday', ...text('{{date}} {{weekday}} {{isodate}}') },
    {
      name: '{{persona}}',
      ...text('[{{persona}}]', { persona: 'Ada is a botanist.' }),
      otherwise: '{{persona}} has a value in all texts of a card. SillyTavern replaces it by nothing.',
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
        '{{description}} and similar macros have a value in all texts of a card. SillyTavern replaces them by nothing in system prompts.',
    },
    { name: '{{if}}', ...text('{{if user}}yes{{/if}} {{if persona}}no{{else}}other{{/if}}') },
    { name: '{{charIfNotGroup}}, {{group}}, {{notChar}}', ...text('{{charIfNotGroup}} {{group}} {{notChar}}') },
    {
      name: '{{lastMessage}} and similar macros',
      ...text('{{lastMessage}}|{{lastUserMessage}}|{{lastCharMessage}}', { messages: talk('a', 'b', 'c') }),
    },
    { name: '{{datetimeformat}}', ...text('{{datetimeformat YYYY-MM-DD}}') },
    { name: 'an unknown macro', ...text('a {{flourish}} b') },
    { name: 'nested macros', ...text('{{reverse:{{user}}}} {{random::{{char}}}}') },
    { name: 'braces without a macro', ...text('{ {{char}} } {{ {user}') },
    {
      name: 'macros in a message of the user',
      card: cardOf({}),
      messages: talk('I am {{user}}, you are {{char}}.'),
      otherwise:
        'Messages of a request are not expanded: otherwise the user of a chat could print the card with {{description}}.',
    },
    {
      name: '{{hidden_key:…}}',
      ...text('a{{hidden_key:b}}c'),
      otherwise:
        'V3: the macro is replaced by nothing, and its text counts for lore. SillyTavern does not support the macro and sends it as it is written.',
    },
    {
      name: 'variables',
      ...text('{{setvar::mood::calm}}[{{getvar::mood}}]'),
      otherwise:
        'The service stores nothing of a conversation, so it has no variables. Their macros stay as written, and are listed in unknown_macros.',
    },
  ]
}

/** Cases of persona and author's note. */
export function playerCases(): readonly Case[] {
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

/** Cases of the conversation itself. */
export function conversationCases(): readonly Case[] {
  const card = cardOf({})
  const end = { isContinued: true, messages: talk('Go on.', 'Once upon') }
  return [
    { name: 'ten messages', card, messages: talk('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i') },
    { name: 'two messages of the user in a row', card, messages: [...talk('a', 'b', 'c'), ...talk('d')] },
    {
      name: 'two messages of the character in a row',
      card,
      messages: [...talk('a', 'b'), { role: 'assistant', content: 'c' }, ...talk('d')],
    },
    { name: 'a name before the text of a message', card, messages: talk('Ada: hello', 'Hi.', 'Fern: what?') },
    { name: 'a full-width colon in a message', card, messages: talk('阿达：你好', '你好。', '再见：好') },
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
        'V3: one message stands after text at depth 1. The service counts the beginning of the reply as a message; SillyTavern removes it before it counts.',
    },
    {
      name: 'an entry for continuations',
      card: cardOf({}),
      ...end,
      worlds: [{ file: worldFile([{ key: ['once'], content: 'Lore.', triggers: ['continue'] }]) }],
    },
  ]
}
