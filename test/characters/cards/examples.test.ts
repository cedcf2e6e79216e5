import { describe, expect, test } from 'vitest'
import { readExamples, type Utterance } from '../../../src/characters/cards/examples.ts'

describe('5 readExamples', () => {
  const user = (text: string): Utterance => ({ speaker: 'user', text })
  const character = (text: string): Utterance => ({ speaker: 'character', text })
  const nobody = (text: string): Utterance => ({ speaker: null, text })

  interface Scenario {
    readonly what: string
    readonly examples: string
    readonly names?: { readonly character?: string; readonly user?: string; readonly nickname?: string }
    readonly blocks: readonly (readonly Utterance[])[]
  }
  const scenarios: readonly Scenario[] = [
    { what: 'nothing', examples: '', blocks: [] },
    { what: 'blanks', examples: ' \r\n\t ', blocks: [] },
    { what: 'a marker alone', examples: '<START>', blocks: [] },
    { what: 'markers without anything between', examples: '<START>\n<START> \n<START>', blocks: [] },
    { what: 'one block', examples: '<START>\nAda: Hi\nMoss: Oh', blocks: [[user('Hi'), character('Oh')]] },
    {
      what: 'text before the first marker',
      examples: 'Ada: Hi\n<START>\nMoss: Oh',
      blocks: [[user('Hi')], [character('Oh')]],
    },
    {
      what: 'markers in any letter case, anywhere',
      examples: 'Ada: Hi<start>Moss: Oh',
      blocks: [[user('Hi')], [character('Oh')]],
    },
    {
      what: 'lines that go on',
      examples: 'Ada: Hi\n  there\n\nfriend\nMoss: Oh',
      blocks: [[user('Hi\n  there\n\nfriend'), character('Oh')]],
    },
    {
      what: 'full-width colons, of names in any script',
      examples: '花子：こんにちは：元気？\nAda：はい\n花子: うん\n花子の話：と言う',
      names: { character: '花子' },
      blocks: [[character('こんにちは：元気？'), user('はい'), character('うん\n花子の話：と言う')]],
    },
    {
      what: 'colons after the first',
      examples: 'Moss: At 10:30: tea: Ada: no',
      blocks: [[character('At 10:30: tea: Ada: no')]],
    },
    {
      what: 'speakers in any letter case, after blanks',
      examples: '  ADA: Hi\n\tmOSS:Oh',
      blocks: [[user('Hi'), character('Oh')]],
    },
    { what: 'lines before the first speaker', examples: '*Rain.*\nAda: Hi', blocks: [[nobody('*Rain.*'), user('Hi')]] },
    {
      what: 'a block without a speaker',
      examples: 'Once upon\na time',
      blocks: [[nobody('Once upon\na time')]],
    },
    {
      what: 'a name that only begins like a speaker',
      examples: 'Ada: Hi\nAdam: No\nMossy: No',
      blocks: [[user('Hi\nAdam: No\nMossy: No')]],
    },
    { what: 'a name without its colon', examples: 'Ada: Hi\nMoss says: No', blocks: [[user('Hi\nMoss says: No')]] },
    {
      what: 'names that would be patterns',
      examples: 'A.*(: Hi\nABC: No\nM[o: Oh',
      names: { user: 'A.*(', character: 'M[o' },
      blocks: [[user('Hi\nABC: No'), character('Oh')]],
    },
    {
      what: 'names with colons',
      examples: 'Dr: No: Hi\nDr: Hm',
      names: { character: 'Dr: No' },
      blocks: [[character('Hi\nDr: Hm')]],
    },
    {
      what: 'name and nickname',
      examples: 'Moss: One\nMo: Two',
      names: { nickname: 'Mo' },
      blocks: [[character('One'), character('Two')]],
    },
    {
      what: 'an empty nickname',
      examples: ': No\nAda: Hi',
      names: { nickname: '' },
      blocks: [[nobody(': No'), user('Hi')]],
    },
    {
      what: 'names beyond Latin',
      examples: 'Ада: Привет\nМОХ: О',
      names: { user: 'Ада', character: 'Мох' },
      blocks: [[user('Привет'), character('О')]],
    },
    {
      what: 'carriage returns',
      examples: 'Ada: Hi\r\nthere\r\nMoss: Oh\r',
      blocks: [[user('Hi\nthere'), character('Oh')]],
    },
    { what: 'a speaker without a text', examples: 'Ada:\nMoss: Oh', blocks: [[user(''), character('Oh')]] },
  ]
  test.each(['Ada: a\n', 'a\n'])('15 more than 10,000 lines and blocks are refused: lines %j', (line) => {
    const read = (count: number) => readExamples(line.repeat(count), { character: 'Moss', user: 'Ada' })
    expect(read(9_999)).toHaveLength(1)
    expect(() => read(10_000)).toThrow('more than 10000 lines and blocks')
  })

  test.each(scenarios)('reads $what', ({ examples, names, blocks }) => {
    expect(readExamples(examples, { character: 'Moss', user: 'Ada', ...names })).toEqual(blocks)
  })
})
