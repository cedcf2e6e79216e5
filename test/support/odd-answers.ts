import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import type { Meaning } from './meaning.ts'
import { chunkText, completion, json, pieces, type Script, sse } from './upstream.ts'

/** The first chunk of a stream. */
export const begun = chunkText({ role: 'assistant', content: '' })
/** A chunk with the text Hi. */
export const hi = chunkText({ content: 'Hi' })
/** The last chunk of a stream. */
export const over = chunkText({}, 'stop')
const meant = { isSuccess: true, text: 'Hi', calls: [], isCut: false }
const broken = { ...meant, isSuccess: false, text: '' }
const bare = (more: object) =>
  JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', ...more })
/** A chunk with pieces of tool calls. */
export const calling = (...tool_calls: readonly object[]) => chunkText({ tool_calls })
/** A piece of a tool call; undefined leaves a field out. */
export const piece = (index: unknown, id: string | undefined, name: string | undefined, text: unknown) => ({
  ...(index === undefined ? {} : { index }),
  ...(id === undefined ? {} : { id }),
  type: 'function',
  function: { ...(name === undefined ? {} : { name }), arguments: text },
})
/** Answers with these events and the end of a stream. */
export const events = (...each: readonly string[]): Script => pieces([sse(...each, '[DONE]')])
const called = (...calls: readonly string[]): Meaning => ({ ...meant, text: '', calls })
/** Answers with pieces of tool calls. */
export const answered = (...each: readonly string[]): Script => events(begun, ...each, chunkText({}, 'tool_calls'))
/** Answers with a status, headers and a body. */
export const raw =
  (status: number, headers: Record<string, string>, body: string | Buffer): Script =>
  (response) => {
    response.writeHead(status, headers).end(body)
  }
const whole = JSON.stringify(completion('Hi'))

/** Odd answers of upstreams, and what each means, whatever the request asked for. */
export const oddAnswers: readonly (readonly [what: string, script: Script, meaning: Meaning])[] = [
  ['a blank event first', events('', begun, hi, over), meant],
  ['a blank event in the middle', events(begun, hi, ' ', over), meant],
  ['a blank event before [DONE]', events(begun, hi, over, ''), meant],
  ['`choices: null` first', events(bare({ choices: null }), begun, hi, over), meant],
  ['`choices: null` in the middle', events(begun, bare({ choices: null }), hi, over), meant],
  ['`choices: null` at the end', events(begun, hi, over, bare({ choices: null })), meant],
  ['a heartbeat', events('{"type":"ping"}', begun, '{"event":"heartbeat"}', hi, over), meant],
  [
    'a `message` in the place of a `delta`',
    events(JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' } }] }), over),
    meant,
  ],
  ['only heartbeats', events('{"type":"ping"}', '{"type":"ping"}'), broken],
  [
    'a whole answer without anything',
    json({ choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: null }] }),
    broken,
  ],
  ['JSON without choices', json({ type: 'ping' }), broken],
  ['`detail`', json({ detail: 'Not found.' }), broken],
  ['an empty body', raw(200, {}, ''), broken],
  ['status 201 with a whole answer', json(completion('Hi'), 201), meant],
  [
    'status 202 with a stream',
    (response) =>
      void response.writeHead(202, { 'content-type': 'text/event-stream' }).end(sse(begun, hi, over, '[DONE]')),
    meant,
  ],
  ['a completion, whatever was asked for', json(completion('Hi')), meant],
  ['a completion after blank lines', raw(200, { 'content-type': 'application/json' }, `\n \n${whole}`), meant],
  ['a completion with a byte order mark', raw(200, {}, `\uFEFF${whole}`), meant],
  ['a stream with a byte order mark', pieces([`\uFEFF${sse(begun, hi, over, '[DONE]')}`]), meant],
  ['lines of JSON', raw(200, {}, [begun, hi, over].join('\n')), meant],
  [
    'events without blank lines',
    pieces([[begun, hi, over, '[DONE]'].map((data) => `data: ${data}\n`).join('')]),
    meant,
  ],
  ['gzip', raw(200, { 'content-encoding': 'gzip' }, gzipSync(whole)), meant],
  ['br', raw(200, { 'content-encoding': 'br' }, brotliCompressSync(whole)), meant],
  ['zstd', raw(200, { 'content-encoding': 'zstd' }, zstdCompressSync(whole)), meant],
  ['deflate', raw(200, { 'content-encoding': 'deflate' }, deflateSync(whole)), meant],
  ['deflate without the wrapper of zlib', raw(200, { 'content-encoding': 'deflate' }, deflateRawSync(whole)), meant],
  [
    'two calls with the same index',
    answered(calling(piece(0, 'a', 'f', '{}')), calling(piece(0, 'b', 'g', '{"a":1}'))),
    called('f {}', 'g {"a":1}'),
  ],
  [
    'two calls in one event with the same index',
    answered(calling(piece(0, 'a', 'f', '{}'), piece(0, 'b', 'f', '{"a":1}'))),
    called('f {}', 'f {"a":1}'),
  ],
  [
    'two calls with alternating pieces',
    answered(
      calling(piece(0, 'a', 'f', '')),
      calling(piece(0, 'b', 'g', '')),
      calling(piece(0, 'a', undefined, '{}')),
      calling(piece(0, 'b', undefined, '[]')),
    ),
    called('f {}', 'g []'),
  ],
  [
    'another id with every piece',
    answered(calling(piece(0, 'a', 'f', '{')), calling(piece(0, 'b', undefined, '}')), calling(piece(0, 'c', '', ' '))),
    called('f {} '),
  ],
  [
    'the same id with every piece',
    answered(calling(piece(0, 'a', 'f', '{')), calling(piece(0, 'a', 'f', '}'))),
    called('f {}'),
  ],
  [
    'calls without an index',
    answered(
      calling(piece(undefined, 'a', 'f', '{')),
      calling(piece(undefined, undefined, undefined, '}')),
      calling(piece(undefined, 'b', 'g', '{}')),
    ),
    called('f {}', 'g {}'),
  ],
  [
    'calls whose index is a text',
    answered(calling(piece('0', 'a', 'f', '{}')), calling(piece('0', 'b', 'g', '{}'))),
    called('f {}', 'g {}'),
  ],
  [
    'calls without an id',
    answered(
      calling(piece(0, undefined, 'f', '{')),
      calling(piece(0, undefined, undefined, '}')),
      calling(piece(1, undefined, 'g', '{}')),
    ),
    called('f {}', 'g {}'),
  ],
  [
    'a known id with another index',
    answered(calling(piece(0, 'a', 'f', '{')), calling(piece(1, 'a', undefined, '}'))),
    called('f {}'),
  ],
  ['arguments that are an object', answered(calling(piece(0, 'a', 'f', { big: 1 }))), called('f {"big":1}')],
  [
    'a whole answer with calls without ids, whose arguments are an object',
    json({
      choices: [
        {
          index: 0,
          message: {
            content: null,
            tool_calls: [piece(undefined, undefined, 'f', { a: 1 }), piece(undefined, undefined, 'f', '{}')],
          },
          finish_reason: 'tool_calls',
        },
      ],
    }),
    called('f {"a":1}', 'f {}'),
  ],
]
