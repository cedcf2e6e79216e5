import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TestSql } from '../test-sql.ts'
import type { Attacker } from './attacker.ts'

/** The database of the service under attack. */
export type Engine = 'SQLite' | 'PostgreSQL'

/** What one attacker does, from its first request to its last answer. */
export type Attack = (attacker: Attacker) => Promise<unknown>

/** One attack, as it is measured. */
export interface Row {
  readonly name: string
  /** Whether the table of the issue about hostile requests has it. */
  readonly isOfIssue?: true
  /** Whether its bodies, or its replies, are among the largest that are allowed: it may take longer. */
  readonly isLargest?: true
  /** SQLite without it. */
  readonly engine?: Engine
  /** Whether the attackers have no key. */
  readonly isKeyless?: true
  /** Whether all attackers use the first one's key. */
  readonly isOneAccount?: true
  /** The most attackers that it is tried with: many with large bodies would measure the machine. */
  readonly maxAttackers?: number
  /** Fills the database, before the service starts. */
  readonly fill?: (sql: TestSql) => Promise<void>
  /** What the service does before, so that nothing is loaded or compiled under attack. */
  readonly warm?: Attack
  /** How the upstream answers; as a good one without it. Its failures are the service's true answers. */
  readonly upstream?: (request: IncomingMessage, response: ServerResponse) => void
  /** Makes the bodies, ahead of the attack, which it gives. */
  readonly prepare: () => Attack
}

/** A JSON body. */
export const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

export const hi = [{ role: 'user', content: 'Hi' }] as const

/** Letters that make no words, the same each time: what costs most to count in tokens. */
export function randomLetters(count: number): string {
  let state = 1
  const codes = Buffer.alloc(count)
  for (let index = 0; index < count; index++) {
    state = (state * 48271) % 2147483647
    codes[index] = 97 + (state % 26)
  }
  return codes.toString('latin1')
}

/** So many things, made from their indices. */
export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** The same row over both engines. */
export function onBothEngines(row: Row): readonly Row[] {
  return [row, { ...row, name: `${row.name}, PostgreSQL`, engine: 'PostgreSQL' }]
}

/** A row that sends one body, and before that, to warm up, a small one of its kind. */
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
