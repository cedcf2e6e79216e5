import { describe, expect, it } from 'vitest'
import type { Passage } from '../../src/models/model.ts'
import { Meter } from '../../src/usage/outcome.ts'
import { streamOf } from '../support/upstream.ts'

const prompt = () => 5

/** The events of a streamed reply except the last two, as a passage that is not parsed. */
function passageOf(text: string): Passage {
  const events = streamOf(text).slice(1, -2)
  const passage = Buffer.from(events.join(''))
  return { passage, events: events.length, words: Buffer.byteLength(text) }
}

describe('a meter', () => {
  it("uses the model's last report, and ignores impossible numbers", () => {
    const meter = new Meter()
    meter.countText({ content: 'some words' })
    meter.countChunk({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } })
    meter.countChunk({ choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } })
    meter.countChunk({ choices: [], usage: { prompt_tokens: -1, completion_tokens: 2 ** 60, total_tokens: 0 } })
    meter.setUsage({ prompt_tokens: 3, completion_tokens: 3 }, false)
    expect(meter.used(prompt)).toStrictEqual({ promptTokens: 11, completionTokens: 7, isExact: true })
  })

  it('counts at least one token for each unparsed event, and more if events are long', () => {
    const short = new Meter()
    short.countPassage(passageOf('a b c d e f g h'))
    expect(short.used(prompt)).toMatchObject({ promptTokens: 5, isExact: false })
    expect(short.used(prompt).completionTokens).toBeGreaterThanOrEqual(8)
    expect(short.used(prompt).completionTokens).toBeLessThan(24)
    const long = new Meter()
    long.countPassage(passageOf('a'.repeat(4000)))
    expect(long.used(prompt).completionTokens).toBeGreaterThan(900)
  })

  it('accepts any value that an upstream sends for texts', () => {
    const meter = new Meter()
    meter.countText(undefined)
    meter.countText(null)
    meter.countText({ tool_calls: [{ function: { arguments: '{"a":1}' } }, {}, { custom: { input: 'ls -l pots' } }] })
    // In Ollama's own API, `arguments` is an object. Its property `length` must not count as the length of a text.
    meter.countText({ tool_calls: [null, { function: { arguments: { length: 1e300 } } }] })
    expect(meter.used(prompt).completionTokens).toBe(5)
  })
})
