import { readFileSync } from 'node:fs'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { json, pieces, type Script } from './upstream.ts'

/** An answer of a vendor's API. `source` names the page of the reference that shows it. */
const Recorded = Type.Object({
  source: Type.String({ minLength: 10 }),
  status: Type.Integer(),
  headers: Type.Optional(Type.Record(Type.String(), Type.String())),
  body: Type.Record(Type.String(), Type.Unknown()),
})

/** Reads a recorded answer, such as `anthropic/text.json`. */
export function recorded(name: string) {
  return Value.Parse(Recorded, JSON.parse(read(name)))
}

/** Answers with a recorded answer; `changes` replace fields of the body. */
export function replay(name: string, changes: Record<string, unknown> = {}): Script {
  const { status, headers, body } = recorded(name)
  return json({ ...body, ...changes }, status, headers)
}

/** Answers with a recorded event stream, one event in each write. The first comment line of the recording names its source. */
export function replayStream(name: string, end: 'end' | 'cut' | 'hang' = 'end'): Script {
  return pieces(eventsOf(name), end)
}

/** The events of a recorded stream, unchanged. */
export function eventsOf(name: string): readonly string[] {
  const text = read(name)
  if (!/^: source: .{10}/.test(text)) throw new Error(`${name} does not say its source.`)
  return text.split(/(?<=\n\r?\n)/)
}

function read(name: string): string {
  return readFileSync(new URL(`../fixtures/${name}`, import.meta.url), 'utf8')
}
