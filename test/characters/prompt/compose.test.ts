import { describe, expect, test } from 'vitest'
import type { Card } from '../../../src/characters/cards/card.ts'
import { builtInSystemPrompt } from '../../../src/characters/prompt/composition.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { composedAtOnce } from '../../support/composed.ts'
import {
  assistant,
  cardOf,
  cardWithLore,
  composed,
  keptOf,
  promptLines,
  system,
  user,
} from '../../support/lore-cards.ts'

const question: readonly Message[] = [user('Are you {{char}}, <BOT>, or {{original}}?')]

describe('4 the messages before the conversation', () => {
  interface Scenario {
    readonly what: string
    readonly card?: Card | null
    readonly name?: string | null
    readonly userName?: string
    readonly systemPrompt?: string
    readonly messages?: readonly Message[]
    /** The messages that come before the request's own messages. */
    readonly before: readonly Message[]
  }
  const scenarios: readonly Scenario[] = [
    {
      what: 'puts system prompt, description, personality, scenario and examples in this order',
      card: cardOf({
        scenario: 'SCENARIO',
        personality: 'PERSONALITY',
        description: 'DESCRIPTION',
        system_prompt: 'SYSTEM',
        mes_example: '<START>\n{{user}}: Hi.\n{{char}}: Hello.',
      }),
      before: [
        system('SYSTEM\n\nDESCRIPTION\n\nPERSONALITY\n\nSCENARIO'),
        system('[Example Chat]'),
        system('Hi.', 'example_user'),
        system('Hello.', 'example_assistant'),
      ],
    },
    {
      what: 'leaves out empty and blank fields',
      card: cardOf({ description: ' \n ', personality: '', scenario: 'SCENARIO', mes_example: '<START>\n \n<start>' }),
      systemPrompt: 'OPERATOR',
      before: [system('OPERATOR\n\nSCENARIO')],
    },
    {
      what: 'takes the built-in prompt when neither the card nor the operator has one',
      card: cardOf({ system_prompt: '  ' }),
      systemPrompt: builtInSystemPrompt,
      before: [system("Write Moss's next reply in a conversation between Moss and User. Stay in character.")],
    },
    {
      what: "prefers the card's prompt to the operator's",
      card: cardOf({ system_prompt: 'CARD' }),
      systemPrompt: 'OPERATOR',
      before: [system('CARD')],
    },
    {
      what: "puts the operator's prompt in the place of every {{original}}",
      card: cardOf({ system_prompt: '({{original}}) CARD ({{ORIGINAL}})' }),
      systemPrompt: 'Be {{char}}',
      before: [system('(Be Moss) CARD (Be Moss)')],
    },
    {
      what: 'leaves {{original}} in other fields and unknown macros as they are',
      card: cardOf({ system_prompt: 'S', description: '{{original}} {{weather}} {{char' }),
      systemPrompt: 'OPERATOR',
      before: [system('S\n\n{{original}} {{weather}} {{char')],
    },
    {
      what: 'expands all names, in any letter case, and in every field',
      card: cardOf({
        system_prompt: '{{CHAR}} <bot>',
        description: '<CHAR> {{User}}',
        personality: '<user>',
        scenario: '{{{char}}}',
        mes_example: '{{user}}: {{char}}?\n<BOT>: <User>!',
      }),
      userName: 'Ada',
      before: [
        system('Moss Moss\n\nMoss Ada\n\nAda\n\n{Moss}'),
        system('[Example Chat]'),
        system('Moss?', 'example_user'),
        system('Ada!', 'example_assistant'),
      ],
    },
    {
      what: 'calls the character by its nickname, and reads examples that use either name',
      card: cardOf({
        nickname: 'Mo',
        description: '{{char}}',
        system_prompt: 'S',
        mes_example: 'Moss: One.\nMo: Two.',
      }),
      before: [
        system('S\n\nMo'),
        system('[Example Chat]'),
        system('One.', 'example_assistant'),
        system('Two.', 'example_assistant'),
      ],
    },
    {
      what: 'never expands a user name: macros in it stay literal',
      card: cardOf({ system_prompt: '{{user}}', description: 'To {{user}}.', mes_example: '{{user}}: I am {{user}}.' }),
      userName: '{{char}}{{user}}<BOT>{{original}}',
      systemPrompt: 'OPERATOR',
      before: [
        system('{{char}}{{user}}<BOT>{{original}}\n\nTo {{char}}{{user}}<BOT>{{original}}.'),
        system('[Example Chat]'),
        system('I am {{char}}{{user}}<BOT>{{original}}.', 'example_user'),
      ],
    },
    {
      what: 'never expands a user name: patterns of String.replace in it stay literal',
      card: cardOf({ system_prompt: '{{user}} ({{original}})', description: '{{user}}' }),
      systemPrompt: '{{user}}!',
      userName: "$& $1 $$ $` $'",
      before: [system("$& $1 $$ $` $' ($& $1 $$ $` $'!)\n\n$& $1 $$ $` $'")],
    },
    {
      what: 'never reads a user name as example dialogue: it ends no example and begins no utterance',
      card: cardOf({ system_prompt: 'S', mes_example: '{{user}}: I am {{user}}.\n{{char}}: So you are.' }),
      userName: 'A<START>\nMoss: No, I',
      before: [
        system('S'),
        system('[Example Chat]'),
        system('I am A<START>\nMoss: No, I.', 'example_user'),
        system('So you are.', 'example_assistant'),
      ],
    },
    {
      what: "never expands a character's name: macros and patterns of String.replace in it stay literal",
      card: cardOf({ name: '{{user}}$&', system_prompt: '{{char}}', description: '<BOT>' }),
      userName: 'Ada',
      before: [system('{{user}}$&\n\n{{user}}$&')],
    },
    {
      what: 'drops carriage returns',
      card: cardOf({
        system_prompt: 'A\r\nB',
        description: 'C\r\n',
        mes_example: '<START>\r\nUser: Hi\r\nthere\r\nMoss: Oh\r\n',
      }),
      before: [
        system('A\nB\n\nC'),
        system('[Example Chat]'),
        system('Hi\nthere', 'example_user'),
        system('Oh', 'example_assistant'),
      ],
    },
    {
      what: 'separates blocks of examples, and keeps lines without a speaker',
      card: cardOf({ system_prompt: 'S', mes_example: '*Rain.*\nUser: One\n<START>\nMoss: Two\n<start>Three' }),
      before: [
        system('S'),
        system('[Example Chat]'),
        system('*Rain.*'),
        system('One', 'example_user'),
        system('[Example Chat]'),
        system('Two', 'example_assistant'),
        system('[Example Chat]'),
        system('Three'),
      ],
    },
    {
      what: 'leaves out blank utterances',
      card: cardOf({ system_prompt: 'S', mes_example: 'User:\nMoss: Oh\n<START>\nUser: \n<START>\nMoss:' }),
      before: [system('S'), system('[Example Chat]'), system('Oh', 'example_assistant')],
    },
    {
      what: 'plays a name without a card by the name alone',
      card: null,
      name: 'The {{user}} of $&',
      userName: 'Ada',
      systemPrompt: 'Be {{char}} to {{user}}.',
      before: [system('Be The {{user}} of $& to Ada.')],
    },
    { what: 'adds nothing without a character', card: null, name: null, systemPrompt: 'OPERATOR', before: [] },
    {
      what: "passes the request's messages on unchanged, system messages and content parts too",
      card: cardOf({ system_prompt: 'S' }),
      messages: [
        system('CALLER {{char}}\r\n'),
        { role: 'user', content: [{ type: 'text', text: ' {{user}} ' }] },
        { role: 'assistant', content: null, tool_calls: [] },
        { role: 'user', content: '' },
      ],
      before: [system('S')],
    },
  ]
  test.each(scenarios)('$what', ({ before, messages = question, ...scenario }) => {
    const persona = {
      name: scenario.name === undefined ? (scenario.card?.name ?? null) : scenario.name,
      card: scenario.card ? keptOf(scenario.card) : null,
      userName: scenario.userName ?? 'User',
    }
    const sent = structuredClone(messages)

    const { messages: made } = composedAtOnce({
      persona,
      messages,
      settings: { systemPrompt: scenario.systemPrompt ?? 'OPERATOR', greeting: 'never' },
    })

    expect(made).toEqual([...before, ...sent])
    expect(messages).toEqual(sent)
    expect(made.filter(({ content }) => content === '' || content == null)).toEqual(
      sent.filter(({ content }) => content === '' || content == null),
    )
    expect(JSON.stringify(made)).not.toContain('GREETING')
  })

  test('2.2 sends no fields for users to the model, and never creator notes', () => {
    const hidden = {
      creator_notes: 'HIDDEN',
      creator: 'HIDDEN',
      character_version: 'HIDDEN',
      tags: ['HIDDEN'],
      group_only_greetings: ['HIDDEN'],
      creator_notes_multilingual: { de: 'HIDDEN' },
      source: ['HIDDEN'],
      assets: [{ type: 'icon', uri: 'HIDDEN', name: 'HIDDEN', ext: 'HIDDEN' }],
      extensions: { HIDDEN: 'HIDDEN', world: 'HIDDEN', regex_scripts: [{ scriptName: 'HIDDEN' }] },
      character_book: {
        name: 'HIDDEN',
        description: 'HIDDEN',
        entries: [{ keys: ['a'], content: 'LORE', name: 'HIDDEN', comment: 'HIDDEN', id: 'HIDDEN' }],
      },
    }
    const card = cardOf({ description: 'SHOWN {{creatorNotes}} {{charVersion}}', ...hidden })
    const text = JSON.stringify(composed(card, 'a').messages)
    expect(text).toContain('SHOWN')
    expect(text).toContain('LORE')
    expect(text).not.toContain('HIDDEN')
  })
})

describe('4.1 order', () => {
  const everything = cardWithLore(
    [
      { constant: true, position: 'before_char', content: 'BEFORE', insertion_order: 2 },
      { constant: true, position: 'before_char', content: 'FIRST', insertion_order: -1.5 },
      { constant: true, position: 'after_char', content: 'AFTER' },
      { constant: true, content: '@@position before_desc\nBEFOREDESC' },
      { constant: true, content: '@@position after_desc\nAFTERDESC' },
      { constant: true, content: '@@position personality\nATPERSONALITY' },
      { constant: true, content: '@@position scenario\nATSCENARIO' },
      { constant: true, content: '@@depth 1\nDEPTH1' },
      { constant: true, content: '@@depth 0\n@@role assistant\nPREFILL' },
      { constant: true, content: 'EXAMPLESBEFORE', extensions: { position: 5 } },
      { constant: true, content: 'EXAMPLESAFTER', extensions: { position: 6 } },
    ],
    {},
    {
      description: 'DESCRIPTION',
      personality: 'PERSONALITY',
      scenario: 'SCENARIO',
      system_prompt: 'SYSTEM',
      post_history_instructions: 'POST',
      first_mes: 'GREETING',
      mes_example: '{{user}}: EXAMPLE',
    },
  )

  test('4.1 every segment has its place, lore is in ascending insertion order', () => {
    const said = [system('CALLER'), user('ONE'), assistant('TWO'), user('THREE')]
    expect(promptLines(composed(everything, said))).toEqual([
      'system: SYSTEM',
      'system: CALLER',
      'system: FIRST\nBEFORE\n\nBEFOREDESC\n\nDESCRIPTION\n\nAFTERDESC\n\nPERSONALITY\n\nATPERSONALITY\n\nSCENARIO\n\nATSCENARIO\n\nAFTER',
      'system: EXAMPLESBEFORE',
      'system: [Example Chat]',
      'example_user: EXAMPLE',
      'system: EXAMPLESAFTER',
      'assistant: GREETING',
      'user: ONE',
      'assistant: TWO',
      'system: DEPTH1',
      'user: THREE',
      'system: POST',
      'assistant: PREFILL',
    ])
  })

  test('4.1 lore next to the examples becomes example dialogue when it names a speaker', () => {
    const dialogue = (position: number, word: string) => ({
      constant: true,
      content: `{{user}}: ${word}?\n{{char}}: ${word}.`,
      extensions: { position },
    })
    const card = cardWithLore([dialogue(5, 'ABOVE'), dialogue(6, 'BELOW')], {}, { mes_example: '{{char}}: EXAMPLE' })
    expect(promptLines(composed(card, 'ONE')).slice(1, -1)).toEqual([
      'system: [Example Chat]',
      'example_user: ABOVE?',
      'example_assistant: ABOVE.',
      'system: [Example Chat]',
      'example_assistant: EXAMPLE',
      'system: [Example Chat]',
      'example_user: BELOW?',
      'example_assistant: BELOW.',
    ])
  })

  test('4.1 without system messages of the caller, the leading segments are one message', () => {
    expect(promptLines(composed(everything, 'ONE'))[0]).toMatch(/^system: SYSTEM\n\nFIRST\nBEFORE\n\nBEFOREDESC/)
  })

  test('4.1 equal requests get the same frozen message objects, so that these are serialized once', () => {
    const settings = { systemPrompt: 'MAIN' }
    const frozen = () =>
      composed(everything, [user('ONE'), assistant('TWO'), user('THREE')], { settings }).messages.filter((message) =>
        Object.isFrozen(message),
      )
    const [first, second] = [frozen(), frozen()]
    expect(first.length).toBeGreaterThan(2)
    expect(second.filter((message) => !first.includes(message))).toEqual([])
  })
})
