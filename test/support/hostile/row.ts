import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TestSql } from '../test-sql.ts'
import type { Attacker } from './attacker.ts'

/** The database of the service under attack. */
export type Engine = 'SQLite' | 'PostgreSQL'

/** The actions of one attacker, from its first request to its last reply. */
export type Attack = (attacker: Attacker) => Promise<unknown>

/** One measured attack. */
export interface Row {
  readonly name: string
  /** Whether bodies or replies have nearly the maximum size, or a package of the AI SDK translates: the main thread may be held longer. */
  readonly isLargest?: true
  /** Seconds for which each attacker repeats the attack, while another account sends chats of 1 MB. By default it attacks once. */
  readonly lasts?: number
  /** The database; by default SQLite. */
  readonly engine?: Engine
  /** Whether the attackers have no key. */
  readonly isKeyless?: true
  /** Whether all attackers use the key of the first attacker. */
  readonly isOneAccount?: true
  /** The maximum number of attackers. More attackers would only measure the machine. */
  readonly maxAttackers?: number
  /** Fills the database before the service starts. */
  readonly fill?: (sql: TestSql) => Promise<void>
  /** Requests before the attack, so that nothing is loaded or compiled under attack. */
  readonly warm?: Attack
  /** The behaviour of the upstream; by default it answers correctly. With this field, 502 and 504 are correct replies. */
  readonly upstream?: (request: IncomingMessage, response: ServerResponse) => void
  /** Makes the bodies before the attack, and returns the attack. */
  readonly prepare: () => Attack
}

/** A JSON body. */
export const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

export const hi = [{ role: 'user', content: 'Hi' }] as const

/** Pseudo-random letters, the same at each call. They are the most expensive text to tokenize. */
export function randomLetters(count: number): string {
  let state = 1
  const codes = Buffer.alloc(count)
  for (let index = 0; index < count; index++) {
    state = (state * 48271) % 2147483647
    codes[index] = 97 + (state % 26)
  }
  return codes.toString('latin1')
}

/** An array of this length, whose values are made from their indices. */
export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** Makes two rows from a row: one over SQLite, and one over PostgreSQL. */
export function onBothEngines(row: Row): readonly Row[] {
  return [row, { ...row, name: `${row.name}, PostgreSQL`, engine: 'PostgreSQL' }]
}

/** A row that sends one body. For the warm-up it sends a small body of the same kind. */
export function postRow(
  name: string,
  path: string,
  body: () => Buffer,
  more: Partial<Row> & { readonly small?: unknown; readonly type?: string } = {},
): Row {
  const { small, type, ...row } = more
  return {
    name,
    ...(small === undefined ? {} : { warm: (attacker) => attacker.post(path, json(small)) }),
    prepare: () => {
      const made = body()
      return (attacker) => attacker.post(path, made, type)
    },
    ...row,
  }
}
