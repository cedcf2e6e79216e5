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
  /** Whether it is one of the first rows, which are always measured with 200 attackers. */
  readonly isOfIssue?: true
  /** Whether its bodies or replies have nearly the maximum size: it may take longer. */
  readonly isLargest?: true
  /** By default SQLite. */
  readonly engine?: Engine
  /** Whether the attackers have no key. */
  readonly isKeyless?: true
  /** Whether all attackers use the first one's key. */
  readonly isOneAccount?: true
  /** The maximum of attackers: many with large bodies would measure the machine. */
  readonly maxAttackers?: number
  /** Fills the database, before the service starts. */
  readonly fill?: (sql: TestSql) => Promise<void>
  /** Requests before the attack, so that nothing is loaded or compiled under attack. */
  readonly warm?: Attack
  /** The upstream's behaviour, by default a good one. Its failures make error replies of the service correct. */
  readonly upstream?: (request: IncomingMessage, response: ServerResponse) => void
  /** Makes the bodies before the attack, and returns the attack. */
  readonly prepare: () => Attack
}

/** A JSON body. */
export const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

export const hi = [{ role: 'user', content: 'Hi' }] as const

/** The same random letters each time, which are the most expensive text to tokenize. */
export function randomLetters(count: number): string {
  let state = 1
  const codes = Buffer.alloc(count)
  for (let index = 0; index < count; index++) {
    state = (state * 48271) % 2147483647
    codes[index] = 97 + (state % 26)
  }
  return codes.toString('latin1')
}

/** An array of so many values, made from their indices. */
export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** The same row over both engines. */
export function onBothEngines(row: Row): readonly Row[] {
  return [row, { ...row, name: `${row.name}, PostgreSQL`, engine: 'PostgreSQL' }]
}

/** A row that sends one body, and for warming up a small one of the same kind. */
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
