import { describe, expect, test } from 'vitest'
import { AnswerReader } from '../../../src/models/upstream/answer-reader.ts'

const error = { code: 400, message: 'maximum context length is 8192 tokens', type: 'invalid_request_error' }
const plain = JSON.stringify({ error })

describe.each([false, true])(
  'the plain JSON of an error, in place of a stream (every event is parsed: %s)',
  (readAll) => {
    test.each<[string, readonly string[]]>([
      ['in one piece', [plain]],
      ['in two pieces', [plain.slice(0, 20), plain.slice(20)]],
      ['with line feeds', [`${JSON.stringify({ error }, null, 2)}\n\n`]],
      ['with carriage returns', [JSON.stringify({ error }, null, 2).replaceAll('\n', '\r\n'), '\r\n\r\n']],
    ])('is read at the end: %s', (_form, pieces) => {
      const reader = new AnswerReader(readAll, [])
      for (const piece of pieces) expect(reader.read(Buffer.from(piece)).failure).toBeUndefined()
      expect(reader.end().failure).toMatchObject({ status: 400, code: 'context_length_exceeded' })
    })
  },
)
