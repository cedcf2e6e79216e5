import { cards } from './cards.ts'
import { chats } from './chats.ts'
import type { Row } from './row.ts'
import { schemas } from './schemas.ts'
import { held } from './slow.ts'
import { small } from './small.ts'

/* Attacks that are repeated for 30 s, while another account sends chats of 1 MB. */

/** A part of the name of each attack. */
const repeated = [
  '20 patterns that make a state of each letter',
  '467 sticky entries in 8 groups',
  '500 patterns as keys, 400 messages of 18 kB',
  '/chat/prompt with 7.5 MB of random letters, no token limit',
  '3,000 properties with heavy patterns',
  'a body of 1 MB in chunks of one byte to /chat/completions',
]

const rows = [...small, ...cards, ...chats, ...schemas, ...held]

export const lasting: readonly Row[] = repeated.map((part) => {
  const row = rows.find(({ name }) => name.includes(part))
  if (row === undefined) throw new Error(`There is no row "${part}".`)
  return { ...row, name: `for 30 s: ${row.name}`, lasts: 30 }
})
