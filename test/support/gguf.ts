import { writeFileSync } from 'node:fs'

/*
 * Writes tiny models as GGUF files (version 3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), so that real
 * inference can be tested without downloaded weights. The architecture is llama: one layer of 64 dimensions.
 */

/** The answer of a tiny model. */
export interface TinyModel {
  /** The tokens of the answer, all different; `<0xF0>` is the token of the byte 0xF0. */
  readonly says: readonly string[]
  /** Whether the model repeats the answer for ever. */
  readonly isEndless?: boolean
  /** How much likelier the next token is than others. 0.3 makes the token certain even at a high temperature; 0.1 does not. */
  readonly certainty?: number
  readonly contextLength?: number
  /** The Jinja template with which the model formats a chat. */
  readonly template?: string
}

/** A template as most models have it: for each message a control token with the role, the text, and an end token. */
export const plainTemplate =
  "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '</s>' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

const dimensions = 64
const hidden = 96
const heads = 4
/** The alignment of tensors in bytes. */
const alignment = 32

/** The numbers that GGUF uses for the types of values. */
const types = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 }

/** The numbers that GGUF uses for the kinds of tokens. */
const normal = 1
const unknown = 2
const control = 3
const byte = 6

/**
 * Writes a model whose likeliest next token depends only on the last token: after `<|assistant|>` comes the first token of the
 * answer, after it the second, and so on. The other weights are small random numbers from a seed.
 */
export function writeTinyModel(path: string, model: TinyModel): void {
  const tokens = vocabulary(model.says)
  const texts = tokens.map(({ text }) => text)
  const random = gaussian(42)
  const numbers = (count: number, scale: number) => Float32Array.from({ length: count }, () => random() * scale)
  const ones = (count: number) => new Float32Array(count).fill(1)

  const embedding = numbers(tokens.length * dimensions, 1)
  const output = numbers(tokens.length * dimensions, 0.05)
  const said = model.says.map((text) => texts.indexOf(pieceOf(text)))
  const chain = [texts.indexOf('<|assistant|>'), ...said, model.isEndless ? (said[0] ?? 0) : texts.indexOf('</s>')]
  for (const [step, from] of chain.slice(0, -1).entries()) {
    const to = chain[step + 1] ?? 0
    for (let at = 0; at < dimensions; at += 1) {
      const index = to * dimensions + at
      output[index] = (output[index] ?? 0) + (model.certainty ?? 0.3) * (embedding[from * dimensions + at] ?? 0)
    }
  }

  const square = (name: string): Tensor => [name, [dimensions, dimensions], numbers(dimensions ** 2, 0.02)]
  const wide = (name: string, shape: readonly number[]): Tensor => [name, shape, numbers(dimensions * hidden, 0.02)]
  const tensors: readonly Tensor[] = [
    ['token_embd.weight', [dimensions, tokens.length], embedding],
    ['output_norm.weight', [dimensions], ones(dimensions)],
    ['output.weight', [dimensions, tokens.length], output],
    ['blk.0.attn_norm.weight', [dimensions], ones(dimensions)],
    ...['q', 'k', 'v', 'output'].map((name) => square(`blk.0.attn_${name}.weight`)),
    ['blk.0.ffn_norm.weight', [dimensions], ones(dimensions)],
    wide('blk.0.ffn_gate.weight', [dimensions, hidden]),
    wide('blk.0.ffn_up.weight', [dimensions, hidden]),
    wide('blk.0.ffn_down.weight', [hidden, dimensions]),
  ]
  const metadata: readonly Entry[] = [
    ['general.architecture', text('llama')],
    ['general.name', text('tiny')],
    ['general.file_type', uint32(0)],
    ['llama.context_length', uint32(model.contextLength ?? 512)],
    ['llama.embedding_length', uint32(dimensions)],
    ['llama.block_count', uint32(1)],
    ['llama.feed_forward_length', uint32(hidden)],
    ['llama.attention.head_count', uint32(heads)],
    ['llama.attention.head_count_kv', uint32(heads)],
    ['llama.attention.layer_norm_rms_epsilon', float32(1e-5)],
    ['llama.rope.dimension_count', uint32(dimensions / heads)],
    ['llama.vocab_size', uint32(tokens.length)],
    ['tokenizer.ggml.model', text('llama')],
    ['tokenizer.ggml.tokens', array(texts.map(text))],
    ['tokenizer.ggml.scores', array(tokens.map((_, index) => float32(-index)))],
    ['tokenizer.ggml.token_type', array(tokens.map(({ kind }) => int32(kind)))],
    ['tokenizer.ggml.bos_token_id', uint32(texts.indexOf('<s>'))],
    ['tokenizer.ggml.eos_token_id', uint32(texts.indexOf('</s>'))],
    ['tokenizer.ggml.unknown_token_id', uint32(texts.indexOf('<unk>'))],
    ['tokenizer.ggml.add_bos_token', bool(true)],
    ['tokenizer.ggml.add_space_prefix', bool(false)],
    ['tokenizer.chat_template', text(model.template ?? plainTemplate)],
  ]
  writeFileSync(path, encode(metadata, tensors))
}

/** The tokens that all these models have, and the tokens of the answer. Each byte has a token, so any text can be encoded. */
function vocabulary(says: readonly string[]): readonly { readonly text: string; readonly kind: number }[] {
  const bytes = Array.from({ length: 256 }, (_, value) => `<0x${value.toString(16).toUpperCase().padStart(2, '0')}>`)
  const pieces = new Set(['▁', ...says.map(pieceOf).filter((piece) => !bytes.includes(piece))])
  return [
    { text: '<unk>', kind: unknown },
    ...['<s>', '</s>', '<|system|>', '<|user|>', '<|assistant|>'].map((name) => ({ text: name, kind: control })),
    ...bytes.map((name) => ({ text: name, kind: byte })),
    ...[...pieces].map((piece) => ({ text: piece, kind: normal })),
  ]
}

/** SentencePiece's character for a space. */
function pieceOf(text: string): string {
  return text.replaceAll(' ', '▁')
}

/** Normally distributed numbers, the same for the same seed (mulberry32, then Box and Muller). */
function gaussian(seed: number): () => number {
  let state = seed
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return () => Math.sqrt(-2 * Math.log(uniform() + 1e-12)) * Math.cos(2 * Math.PI * uniform())
}

type Tensor = readonly [name: string, shape: readonly number[], values: Float32Array]
type Value = { readonly type: number; readonly bytes: Buffer }
type Entry = readonly [key: string, value: Value]

const uint32 = (value: number): Value => ({ type: types.uint32, bytes: number(4, (at) => at.writeUInt32LE(value)) })
const int32 = (value: number): Value => ({ type: types.int32, bytes: number(4, (at) => at.writeInt32LE(value)) })
const float32 = (value: number): Value => ({ type: types.float32, bytes: number(4, (at) => at.writeFloatLE(value)) })
const bool = (value: boolean): Value => ({ type: types.bool, bytes: Buffer.from([value ? 1 : 0]) })
const text = (value: string): Value => ({ type: types.string, bytes: withLength(value) })
const array = (values: readonly Value[]): Value => ({
  type: types.array,
  bytes: Buffer.concat([
    uint32(values[0]?.type ?? types.uint32).bytes,
    uint64(values.length),
    ...values.map((value) => value.bytes),
  ]),
})

function encode(metadata: readonly Entry[], tensors: readonly Tensor[]): Buffer {
  let offset = 0
  const infos = tensors.map(([name, shape, values]) => {
    const at = offset
    offset += values.byteLength + padding(values.byteLength)
    // The type 0 is F32.
    return [withLength(name), uint32(shape.length).bytes, ...shape.map(uint64), uint32(0).bytes, uint64(at)]
  })
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    uint32(3).bytes,
    uint64(tensors.length),
    uint64(metadata.length),
    ...metadata.flatMap(([key, { type, bytes }]) => [withLength(key), uint32(type).bytes, bytes]),
    ...infos.flat(),
  ])
  const data = tensors.flatMap(([, , values]) => [
    Buffer.from(values.buffer, values.byteOffset, values.byteLength),
    Buffer.alloc(padding(values.byteLength)),
  ])
  return Buffer.concat([head, Buffer.alloc(padding(head.length)), ...data])
}

function padding(length: number): number {
  return (alignment - (length % alignment)) % alignment
}

function withLength(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([uint64(bytes.length), bytes])
}

function uint64(value: number): Buffer {
  return number(8, (at) => at.writeBigUInt64LE(BigInt(value)))
}

function number(size: number, write: (buffer: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(size)
  write(buffer)
  return buffer
}
