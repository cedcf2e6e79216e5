import { availableParallelism } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import { ApiError } from '../../errors.ts'
import type { ProgressOutput } from '../../print.ts'
import type { LlamaCppSettings } from '../configuration/settings.ts'
import type { Chat, HistoryItem, Llama, LlamaModel, NodeLlamaCpp, Sequence, Token } from './node-llama-cpp.ts'
import type { Sampling } from './request.ts'

/**
 * The largest context window if the settings do not set one. The window that the model was trained with may need many gigabytes.
 */
const defaultWindowTokens = 8192
/** Extra tokens of the context, so that node-llama-cpp need not shift the context. A shift would remove messages silently. */
const spareTokens = 64

/** A conversation, and its tokens. */
export interface Prompt {
  readonly history: readonly HistoryItem[]
  readonly tokens: readonly Token[]
}

/** A piece of an unfinished answer. */
export interface Piece {
  readonly text: string
  /** Whether the piece is reasoning, and not the answer. */
  readonly isThought: boolean
}

/** One whole answer. */
export interface Answer {
  readonly text: string
  readonly thoughts: string
  readonly tokens: number
  readonly finish: 'stop' | 'length'
}

/**
 * A model in memory. It answers one prompt at a time. If a prompt begins like the previous prompt, the common beginning is not
 * read again.
 */
export class Engine {
  /** Maximum tokens of prompt and answer together. */
  readonly window: number
  readonly #llama: Llama
  readonly #model: LlamaModel
  readonly #sequence: Sequence
  readonly #chat: Chat

  private constructor(window: number, llama: Llama, model: LlamaModel, sequence: Sequence, chat: Chat) {
    this.window = window
    this.#llama = llama
    this.#model = model
    this.#sequence = sequence
    this.#chat = chat
  }

  /** Loads a model. This function compiles and downloads nothing. */
  static async open(
    { getLlama, LlamaChat }: NodeLlamaCpp,
    file: string,
    settings: LlamaCppSettings,
    { signal, output }: { readonly signal: AbortSignal; readonly output: ProgressOutput },
  ): Promise<Engine> {
    // One core stays free for the service: a thread that waits for a core delays all other threads. On a busy machine an answer
    // took 5 times as long with as many threads as cores, and 100 times as long with one thread more.
    const cores = Math.max(1, availableParallelism() - 1)
    const llama = await getLlama({
      gpu: settings.gpu === false ? false : 'auto',
      build: 'never',
      skipDownload: true,
      progressLogs: false,
      maxThreads: cores,
      logLevel: 'error',
      logger: (_level, message) => output.write(`llama.cpp: ${message.trimEnd()}\n`),
    })
    try {
      const model = await llama.loadModel({ modelPath: file, loadSignal: signal })
      const window = settings.contextWindow ?? Math.min(model.trainContextSize, defaultWindowTokens)
      const threads = Math.min(cores, Math.max(1, llama.cpuMathCores))
      const context = await model.createContext({ contextSize: window + spareTokens, threads, createSignal: signal })
      const sequence = context.getSequence()
      return new Engine(window, llama, model, sequence, new LlamaChat({ contextSequence: sequence }))
    } catch (error) {
      await llama.dispose()
      throw error
    }
  }

  /**
   * Formats a conversation with the model's own chat template.
   * @throws ApiError 400 if the conversation is too long, or the template refuses it
   */
  async prepare(history: readonly HistoryItem[], signal: AbortSignal): Promise<Prompt> {
    const atLeast = await this.#countAtLeast(history, signal)
    if (atLeast >= this.window) throw this.#tooLong(`more than ${atLeast}`)
    const isOpen = history.at(-1)?.type === 'model'
    const chatHistory: readonly HistoryItem[] = isOpen ? history : [...history, { type: 'model', response: [] }]
    let tokens: readonly Token[]
    try {
      tokens = this.#chat.chatWrapper.generateContextState({ chatHistory }).contextText.tokenize(this.#model.tokenizer)
    } catch (cause) {
      throw new ApiError(
        400,
        'messages_not_supported',
        "The model's chat template refuses these messages. Let user and assistant take turns, the user first.",
        { param: 'messages', cause },
      )
    }
    if (tokens.length >= this.window) throw this.#tooLong(String(tokens.length))
    return { history, tokens }
  }

  /**
   * A lower bound of the tokens, without the template. The texts are counted in slices, because megabytes in one step would delay
   * all other requests. Counting stops at the size of the window. A cut between two slices can add a few tokens, so a few tokens
   * are subtracted for each cut.
   */
  async #countAtLeast(history: readonly HistoryItem[], signal: AbortSignal): Promise<number> {
    const slice = 16_384
    const morePerCut = 8
    let sum = 0
    for (const item of history) {
      const text = item.type === 'model' ? item.response.join('') : item.text
      for (let at = 0; at < text.length; at += slice) {
        sum += this.#model.tokenize(text.slice(at, at + slice)).length - morePerCut
        if (sum >= this.window) return sum
        await setImmediate(undefined, { signal })
      }
    }
    return sum
  }

  #tooLong(tokens: string): ApiError {
    return new ApiError(
      400,
      'context_length_exceeded',
      `The context of this model has ${this.window} tokens, and the messages take ${tokens}. Send fewer or shorter ones.`,
      { param: 'messages' },
    )
  }

  /** Reads the prompt and answers it. After an abort, soon rejects with the signal's reason. */
  async answer(
    { history, tokens }: Prompt,
    sampling: Sampling,
    maxTokens: number | undefined,
    signal: AbortSignal,
    onPiece: (piece: Piece) => void,
  ): Promise<Answer> {
    await this.#read(tokens.slice(0, -1), signal)
    const isFull = new AbortController()
    const before = this.#sequence.tokenMeter.usedOutputTokens
    const said = { text: '', thoughts: '' }
    let stopReason: string
    try {
      const response = await this.#chat.generateResponse(history, {
        ...sampling,
        signal: AbortSignal.any([signal, isFull.signal]),
        maxTokens: Math.min(maxTokens ?? Number.POSITIVE_INFINITY, this.window - tokens.length),
        contextShift: {
          // The spare tokens should prevent a shift. If there is a shift nevertheless, the answer ends here with the finish
          // reason `length`.
          strategy: () => {
            isFull.abort()
            throw new Error('The context is full.')
          },
        },
        onResponseChunk: ({ text, segmentType }) => {
          if (text === '') return
          const isThought = segmentType !== undefined
          said[isThought ? 'thoughts' : 'text'] += text
          onPiece({ text, isThought })
        },
      })
      stopReason = response.metadata.stopReason
    } catch (error) {
      if (!isFull.signal.aborted) throw error
      stopReason = 'maxTokens'
    }
    return {
      ...said,
      tokens: this.#sequence.tokenMeter.usedOutputTokens - before,
      finish: stopReason === 'maxTokens' ? 'length' : 'stop',
    }
  }

  /**
   * Reads a prompt. On a small machine, a long prompt can take a minute, and an abort is noticed only between two steps. So a
   * step takes about 0.25 s.
   */
  async #read(tokens: readonly Token[], signal: AbortSignal): Promise<void> {
    await this.#sequence.adaptStateToTokens(tokens, false)
    let step = 32
    for (let at = this.#sequence.nextTokenIndex; at < tokens.length; ) {
      signal.throwIfAborted()
      const start = performance.now()
      await this.#sequence.evaluateWithoutGeneratingNewTokens(tokens.slice(at, at + step))
      at += step
      const took = performance.now() - start
      if (took < 125) step = Math.min(step * 2, 512)
      else if (took > 500) step = Math.max(step >> 1, 8)
    }
    signal.throwIfAborted()
  }

  /** Frees the memory. No request may be running. */
  async close(): Promise<void> {
    await this.#llama.dispose()
  }
}
