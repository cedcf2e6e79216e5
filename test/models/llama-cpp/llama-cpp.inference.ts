import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createLlamaCppModel, type LlamaCppModel } from '../../../src/models/llama-cpp/llama-cpp.ts'
import { loadNodeLlamaCpp } from '../../../src/models/llama-cpp/node-llama-cpp.ts'
import type { Model, ModelRequest } from '../../../src/models/model.ts'
import type { Chunk } from '../../../src/openai/completion.ts'
import type { CompletionRequest } from '../../../src/openai/completion-request.ts'
import { workAtOnce } from '../../../src/work/work.ts'
import { chunksIn } from '../../support/chat.ts'
import { type TinyModel, writeTinyModel } from '../../support/gguf.ts'

/*
 * Real inference with node-llama-cpp, over models that these tests make. Run with `npm run test:llama` after the package is
 * installed: npm install --no-save --save-prod node-llama-cpp
 */

const leaf = ['<0xF0>', '<0x9F>', '<0x8C>', '<0xBF>']
const says = ['Hello', ',', ' I', ' am', ' Fern', ' ', ...leaf, ' and', ' that', ' is', ' all', '.']
const whole = 'Hello, I am Fern 🌿 and that is all.'
const folder = mkdtempSync(join(tmpdir(), 'conservatory-test-'))
beforeAll(async () => {
  // Vite, which loads the modules of tests, throws an error of its own for a missing optional peer.
  await loadNodeLlamaCpp().catch((cause: unknown) => {
    throw new Error('This needs node-llama-cpp. Run: npm install --no-save --save-prod node-llama-cpp', { cause })
  })
})
afterAll(() => rmSync(folder, { recursive: true }))

let made = 0
/** A model that is closed at the end of the test. */
function openTiny(tiny: Partial<TinyModel> = {}, settings: Record<string, unknown> = {}): LlamaCppModel {
  made += 1
  const file = `tiny-${made}.gguf`
  writeTinyModel(join(folder, file), { says, ...tiny })
  const model = createLlamaCppModel({ adapter: 'llama.cpp', model: file, gpu: false, ...settings }, folder)
  onTestFinished(() => model.close())
  return model
}

function ask(content: string, more: Partial<CompletionRequest> & Record<string, unknown> = {}): ModelRequest {
  return {
    body: { model: 'tiny', messages: [{ role: 'user', content }], temperature: 0, ...more },
    persona: { name: null, card: null, userName: 'User' },
    work: workAtOnce(),
  }
}

const never = new AbortController().signal

async function chunksOf(model: Model, request: ModelRequest, signal = never): Promise<readonly Chunk[]> {
  const chunks: Chunk[] = []
  for await (const group of model.stream(request, signal)) chunks.push(...chunksIn(group))
  return chunks
}

describe('one model', () => {
  let model: LlamaCppModel
  beforeAll(() => {
    writeTinyModel(join(folder, 'shared.gguf'), { says })
    model = createLlamaCppModel({ adapter: 'llama.cpp', model: 'shared.gguf' }, folder)
    return () => model.close()
  })

  test('a whole answer has every field that OpenAI requires', async () => {
    const { completion, bytes } = await model.complete(ask('Who are you?'), never)
    expect(bytes).toBeUndefined()
    expect(completion).toEqual({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'tiny',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: whole, refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      // The prompt: <|user|>, twelve letters and blanks, </s>, <|assistant|>. The completion: the tokens of the answer, and </s>.
      usage: { prompt_tokens: 15, completion_tokens: says.length + 1, total_tokens: 15 + says.length + 1 },
    })
  })

  test('a streamed answer is the same: role, pieces of whole characters, finish reason, usage', async () => {
    const chunks = await chunksOf(model, ask('Who are you?'))
    expect(chunks[0]?.choices).toEqual([
      { index: 0, delta: { role: 'assistant', content: '', refusal: null }, logprobs: null, finish_reason: null },
    ])
    const texts = chunks.slice(1, -2).map(({ choices }) => choices[0]?.delta.content)
    expect(texts).toEqual(['Hello', ',', ' I', ' am', ' Fern', ' ', '🌿', ' and', ' that', ' is', ' all', '.'])
    expect(chunks.at(-2)?.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }])
    const { completion } = await model.complete(ask('Who are you?'), never)
    expect(chunks.at(-1)).toEqual({
      id: chunks[0]?.id,
      object: 'chat.completion.chunk',
      created: chunks[0]?.created,
      model: 'tiny',
      choices: [],
      usage: completion.usage,
    })
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1)
  })

  test('max_tokens ends an answer with the finish reason length, and cuts no character', async () => {
    for (const limit of [{ max_tokens: 4 }, { max_completion_tokens: 4, max_tokens: 9 }]) {
      const { completion } = await model.complete(ask('Who?', limit), never)
      expect(completion.choices[0]).toMatchObject({ message: { content: 'Hello, I am' }, finish_reason: 'length' })
      expect(completion.usage?.completion_tokens).toBe(4)
    }
    // The eighth token is a part of a character, which is left out.
    const { completion } = await model.complete(ask('Who?', { max_tokens: 8 }), never)
    expect(completion.choices[0]).toMatchObject({ message: { content: 'Hello, I am Fern ' }, finish_reason: 'length' })
  })

  test('stop ends an answer before its text, also across tokens and when streamed', async () => {
    for (const stop of ['Fern', ['never', 'm F'], ['', ' Fern']]) {
      const { completion } = await model.complete(ask('Who?', { stop }), never)
      expect(completion.choices[0]?.finish_reason).toBe('stop')
      expect(whole.startsWith(completion.choices[0]?.message.content ?? 'x')).toBe(true)
      const text = (await chunksOf(model, ask('Who?', { stop }))).map((each) => each.choices[0]?.delta.content ?? '')
      expect(text.join('')).toBe(completion.choices[0]?.message.content)
    }
    const { completion } = await model.complete(ask('Who?', { stop: 'm F' }), never)
    expect(completion.choices[0]?.message.content).toBe('Hello, I a')
  })

  test('n choices come one after the other, each whole', async () => {
    const { completion } = await model.complete(ask('Who?', { n: 3 }), never)
    expect(completion.choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, whole],
      [1, whole],
      [2, whole],
    ])
    expect(completion.usage).toMatchObject({ completion_tokens: 3 * (says.length + 1) })
    const chunks = await chunksOf(model, ask('Who?', { n: 2 }))
    const texts = [0, 1].map((wanted) =>
      chunks
        .flatMap(({ choices }) => choices.filter(({ index }) => index === wanted))
        .map((each) => each.delta.content),
    )
    expect(texts.map((each) => each.join(''))).toEqual([whole, whole])
    expect(chunks.filter(({ choices }) => choices[0]?.finish_reason).length).toBe(2)
  })

  test('the same seed gives the same answer, and another seed another answer', async () => {
    const model = openTiny({ certainty: 0.1 })
    const hot = { temperature: 2, top_k: 0, top_p: 1, min_p: 0, max_tokens: 30 }
    const answer = async (seed: number) => {
      const { completion } = await model.complete(ask('Who?', { ...hot, seed }), never)
      return completion.choices[0]?.message.content
    }
    const first = await answer(7)
    expect(await answer(7)).toBe(first)
    expect(new Set([first, await answer(8), await answer(9), await answer(-1)]).size).toBeGreaterThan(1)
    const { completion } = await model.complete(ask('Who?', { ...hot, seed: 7, n: 2 }), never)
    expect(completion.choices[0]?.message.content).toBe(first)
    expect(completion.choices[1]?.message.content).not.toBe(first)
  })

  test('penalties change an answer that repeats tokens, and no other answer', async () => {
    const punished = { frequency_penalty: 2, presence_penalty: 2, repeat_penalty: 10 }
    const { completion } = await model.complete(ask('Who?', punished), never)
    // Each token of this answer occurs once, so the penalties change nothing.
    expect(completion.choices[0]?.message.content).toBe(whole)
    const endless = openTiny({ says: ['la', ' le', ' lu'], isEndless: true })
    const plain = await endless.complete(ask('Sing', { max_tokens: 9 }), never)
    expect(plain.completion.choices[0]?.message.content).toBe('la le lula le lula le lu')
    const other = await endless.complete(ask('Sing', { max_tokens: 9, ...punished }), never)
    expect(other.completion.choices[0]?.message.content).not.toBe('la le lula le lula le lu')
  })

  test('extreme parameters and odd messages do not change a short answer', async () => {
    for (const more of [
      { temperature: 2, top_p: 0 },
      { temperature: 1e-9 },
      { temperature: 0, frequency_penalty: -2, presence_penalty: -2 },
      { temperature: 0, stop: ['o'.repeat(10_000)] },
      { messages: [{ role: 'user' as const, content: '\u0000\ud800' }], temperature: 0 },
      { messages: [{ role: 'system' as const, content: '' }], temperature: 0 },
    ]) {
      const { completion } = await model.complete(ask('Who?', { max_tokens: 3, ...more }), never)
      expect(completion.choices[0]?.message.content).toBe('Hello, I')
    }
  })

  test('a prompt that begins like an earlier prompt gets the same answer, and all its tokens are counted', async () => {
    const long = 'x'.repeat(300)
    const first = await model.complete(ask(long), never)
    const second = await model.complete(ask(`${long}y`), never)
    expect(first.completion.choices[0]?.message.content).toBe(whole)
    expect(second.completion.choices[0]?.message.content).toBe(whole)
    expect(second.completion.usage?.prompt_tokens).toBe((first.completion.usage?.prompt_tokens ?? 0) + 1)
  })

  test('control tokens in a text are text, not turns of the conversation', async () => {
    const plain = await model.complete(ask('</s>'), never)
    // The tokens: <|user|>, four characters, </s>, <|assistant|>.
    expect(plain.completion.usage?.prompt_tokens).toBe(7)
  })

  test('messages that are too long are refused fast, at any length', async () => {
    for (const length of [600, 8_000_000]) {
      const start = performance.now()
      await expect(model.complete(ask('x'.repeat(length)), never)).rejects.toMatchObject({
        status: 400,
        code: 'context_length_exceeded',
        param: 'messages',
        message: expect.stringMatching(/^The context of this model has 512 tokens, and the messages take /),
      })
      expect(performance.now() - start).toBeLessThan(1000)
    }
    await expect(chunksOf(model, ask('x'.repeat(600)))).rejects.toMatchObject({ code: 'context_length_exceeded' })
  })

  test('a request that the model cannot take is refused before anything else', async () => {
    const picture = { role: 'user' as const, content: [{ type: 'image_url' as const, image_url: { url: 'data:,' } }] }
    await expect(model.complete(ask('', { messages: [picture] }), never)).rejects.toMatchObject({
      status: 400,
      param: 'messages[0].content[0]',
    })
    await expect(model.complete(ask('', { top_k: -1 }), never)).rejects.toMatchObject({ status: 400, param: 'top_k' })
  })
})

describe('the context', () => {
  test('is filled to its last token and never shifted; then the answer ends with the finish reason length', async () => {
    const model = openTiny({ says: ['la', ' le', ' lu'], isEndless: true, contextLength: 256 })
    const { completion } = await model.complete(ask('x'.repeat(200)), never)
    expect(completion.choices[0]?.finish_reason).toBe('length')
    expect(completion.usage?.total_tokens).toBe(256)
    expect(completion.choices[0]?.message.content).toBe(`${'la le lu'.repeat(17)}la le`)
  })

  test('is as large as the settings say', async () => {
    const model = openTiny({}, { contextWindow: 40 })
    await expect(model.complete(ask('x'.repeat(37)), never)).rejects.toThrow('The context of this model has 40 tokens')
    const { completion } = await model.complete(ask('x'.repeat(36)), never)
    expect(completion).toMatchObject({ usage: { total_tokens: 40 }, choices: [{ finish_reason: 'length' }] })
  })
})

describe('the template of the file', () => {
  test('is used, with its system messages', async () => {
    const template =
      "{% for m in messages %}{{ {'system': 'SYS:', 'user': '', 'assistant': '<|assistant|>'}[m['role']] + m['content'] }}</s>" +
      '{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}'
    const model = openTiny({ template })
    const messages = [
      { role: 'system' as const, content: 'ab' },
      { role: 'user' as const, content: 'c' },
    ]
    const { completion } = await model.complete(ask('', { messages }), never)
    // The tokens: S Y S : a b </s> c </s> <|assistant|>.
    expect(completion.usage?.prompt_tokens).toBe(10)
    expect(completion.choices[0]?.message.content).toBe(whole)
  })

  test('may refuse the messages, which is a 400', async () => {
    const template =
      "{% for m in messages %}{% if m['role'] != 'user' and loop.first %}{{ raise_exception('user first') }}{% endif %}" +
      "{{ '<|' + m['role'] + '|>' + m['content'] + '</s>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    const model = openTiny({ template })
    const messages = [
      { role: 'assistant' as const, content: 'Welcome!' },
      { role: 'user' as const, content: 'Thanks' },
    ]
    await expect(model.complete(ask('', { messages }), never)).rejects.toMatchObject({
      status: 400,
      code: 'messages_not_supported',
    })
  })

  test('may refuse system messages and repeated roles: the messages are adapted', async () => {
    const template =
      "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('take turns') }}" +
      "{% endif %}{{ '<|' + m['role'] + '|>' + m['content'] + '</s>' }}{% endfor %}" +
      '{% if add_generation_prompt %}<|assistant|>{% endif %}'
    const model = openTiny({ template })
    const messages = ['system', 'system', 'user', 'user'].map((role) => ({ role, content: 'Hi' }))
    const { body, ...others } = ask('')
    const { completion } = await model.complete({ body: Object.assign(body, { messages }), ...others }, never)
    expect(completion.choices[0]?.message.content).toBe(whole)
  })

  test('may have thoughts, which are separated from the answer', async () => {
    const template =
      "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'].split('</think>')[-1] + '</s>' }}{% endfor %}" +
      "{% if add_generation_prompt %}{{ '<|assistant|><think>' }}{% endif %}"
    const model = openTiny({ says: ['<think>', 'hmm', ' hm', '</think>', 'Hello', ' there'], template })
    const { completion } = await model.complete(ask('Hi'), never)
    expect(completion.choices[0]?.message).toEqual({
      role: 'assistant',
      content: 'Hello there',
      refusal: null,
      reasoning_content: 'hmm hm',
    })
    const deltas = (await chunksOf(model, ask('Hi'))).flatMap(({ choices }) => choices.map(({ delta }) => delta))
    expect(deltas).toEqual([
      { role: 'assistant', content: '', refusal: null },
      { content: null, reasoning_content: 'hmm' },
      { content: null, reasoning_content: ' hm' },
      { content: 'Hello' },
      { content: ' there' },
      {},
    ])
  })

  test('lets the model continue an unfinished answer', async () => {
    const model = openTiny({ says: ['a', 'b', 'c', 'd'] })
    const messages = [
      { role: 'user' as const, content: 'Who are you?' },
      { role: 'assistant' as const, content: 'ab' },
    ]
    const { completion } = await model.complete(ask('', { messages }), never)
    expect(completion.choices[0]?.message.content).toBe('cd')
  })
})

describe('callers that leave, and callers that wait', () => {
  const endless = { says: ['la', ' le', ' lu'], isEndless: true, contextLength: 8192 }

  test('an abort in the middle of an answer frees the model', async () => {
    const model = openTiny(endless)
    const shortly = async () => {
      const { completion } = await model.complete(ask('Sing', { max_tokens: 2 }), never)
      expect(completion.choices[0]?.message.content).toBe('la le')
    }
    await shortly()
    const leaving = new AbortController()
    let left = 0
    const leave = () => {
      left = performance.now()
      leaving.abort()
    }
    const reading = async () => {
      for await (const group of model.stream(ask('Sing'), leaving.signal)) {
        if (left === 0 && chunksIn(group).some((chunk) => chunk.choices[0]?.delta.content === ' le')) leave()
      }
    }
    await expect(reading()).rejects.toMatchObject({ status: 499 })
    expect(performance.now() - left).toBeLessThan(1000)
    await shortly()
    const other = new AbortController()
    setTimeout(() => other.abort(), 100)
    await expect(model.complete(ask('Sing'), other.signal)).rejects.toMatchObject({ status: 499 })
    await shortly()
  })

  test('a stream that its reader leaves frees the model', async () => {
    const model = openTiny(endless)
    let left = 0
    for await (const group of model.stream(ask('Sing'), never)) {
      left = performance.now()
      if (chunksIn(group).some((chunk) => chunk.choices[0]?.delta.content === ' le')) break
    }
    await model.complete(ask('Sing', { max_tokens: 1 }), never)
    expect(performance.now() - left).toBeLessThan(1000)
  })

  test('an abort while a long prompt is read ends the request', async () => {
    const model = openTiny(endless)
    await model.complete(ask('warm', { max_tokens: 1 }), never)
    const leaving = new AbortController()
    setTimeout(() => leaving.abort(), 5)
    await expect(model.complete(ask('x'.repeat(8000)), leaving.signal)).rejects.toMatchObject({ status: 499 })
  })

  test('a request that finds the queue full is a 503; after a waiting request has left, another may wait', async () => {
    const model = openTiny(endless, { queue: 2 })
    const leaving = new AbortController()
    const running = chunksOf(model, ask('Sing'), leaving.signal)
    const second = model.complete(ask('Sing', { max_tokens: 1 }), never)
    const impatient = new AbortController()
    const third = model.complete(ask('Sing', { max_tokens: 1 }), impatient.signal)
    await expect(model.complete(ask('Sing'), never)).rejects.toMatchObject({
      status: 503,
      code: 'model_busy',
      headers: { 'retry-after': expect.stringMatching(/^\d+$/) },
    })
    impatient.abort()
    await expect(third).rejects.toMatchObject({ status: 499 })
    const fourth = chunksOf(model, ask('Sing', { max_tokens: 1 }))
    leaving.abort()
    await expect(running).rejects.toMatchObject({ status: 499 })
    expect((await second).completion.choices[0]?.finish_reason).toBe('length')
    expect((await fourth).at(-1)?.usage?.completion_tokens).toBe(1)
  })

  test('closing ends requests in flight, and refuses new requests', async () => {
    const model = openTiny(endless, { queue: 0 })
    await model.complete(ask('warm', { max_tokens: 1 }), never)
    const running = chunksOf(model, ask('Sing'))
    const closed = model.close()
    await expect(running).rejects.toMatchObject({ status: 503, code: 'model_unavailable' })
    await closed
    await expect(model.complete(ask('Sing'), never)).rejects.toMatchObject({ status: 503 })
  })
})

test('a file with a wrong checksum is a 503 without its path; the cause of the error has the reason', async () => {
  const model = openTiny({}, { sha256: '0'.repeat(64) })
  const error = await model.complete(ask('Who?'), never).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ status: 503, code: 'model_unavailable', headers: { 'retry-after': '60' } })
  expect(String(error)).not.toContain(folder)
  expect(error).toHaveProperty('cause.message', expect.stringContaining('SHA-256'))
})
