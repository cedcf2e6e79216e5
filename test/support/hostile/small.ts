import { bookOf, card, entry, play } from './cards.ts'
import { hi, json, postRow, type Row, randomLetters, times } from './row.ts'

/* The worst small inputs: cards and bodies of at most 64 KiB, which are composed on the main thread until their fuel is spent. */

/** Each attacker uploads a card and plays it ten times, so that many small requests may add up. */
const playedRow = (name: string, fields: object, messages: readonly object[] = hi): Row => ({
  name: `a small card: ${name}`,
  warm: async (attacker) => {
    await attacker.put('/characters/Warm', json(card({ name: 'Warm' })))
    await attacker.post('/chat/prompt', json(play('Warm')))
  },
  prepare: () => {
    const bytes = json(card(fields))
    const request = json(play('Moss', messages))
    return async (attacker) => {
      await attacker.put('/characters/Moss', bytes)
      for (let round = 0; round < 10; round++) await attacker.post('/chat/prompt', request)
    }
  },
})

/** Constant entries that stay active for a message, in some groups. */
const sticky = (count: number, groups: number) =>
  bookOf(
    times(count, (index) =>
      entry({
        keys: [],
        constant: true,
        content: `L${index}`,
        extensions: { sticky: 1, group: times(groups, (group) => `g${group}`).join() },
      }),
    ),
  )

/** Patterns whose automaton has a state for each of the last hundred letters. */
const exploding = (count: number) =>
  bookOf(times(count, (index) => entry({ use_regex: true, keys: [`/(a|b)*a(a|b){100}[^a-c]{${index + 1}}/`] })))
const letters = randomLetters(60_000).replace(/./g, (letter) => (letter < 'n' ? 'a' : 'b'))
const said = [{ role: 'user', content: letters }]

const chat = { model: 'understudy', messages: hi }

export const small: readonly Row[] = [
  playedRow('3,500 greetings, none of them sent', { alternate_greetings: times(3500, (index) => `Hello ${index}.`) }),
  playedRow('467 sticky entries in 8 groups', sticky(467, 8)),
  playedRow(
    '595 sticky entries, 400 messages',
    sticky(595, 0),
    times(401, (index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content: 'moss and fern '.repeat(7) })),
  ),
  playedRow('2,900 {{roll:1000d1}}', { description: '{{roll:1000d1}} '.repeat(2900) }),
  playedRow('2,900 {{pick}}', { description: '{{pick:a,b}} '.repeat(2900) }),
  playedRow('one pattern that makes a state of each letter', exploding(1), said),
  playedRow('20 patterns that make a state of each letter', exploding(20), said),
  postRow(
    'a small body: 60 kB of unique property names',
    '/chat/completions',
    () => json({ ...chat, ...Object.fromEntries(times(6000, (index) => [`f${index}`, 1])) }),
    { small: chat },
  ),
  postRow(
    'a small body: 25 kB of invalid parts of a message',
    '/chat/completions',
    () => json({ ...chat, messages: [{ role: 'user', content: times(1900, () => ({ type: 'x' })) }] }),
    { small: chat },
  ),
]
