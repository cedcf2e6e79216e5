/*
 * The types of node-llama-cpp 3 that are used here, written by hand: the package is an optional peer dependency that the operator
 * installs, and all other code must compile and run without it.
 * The originals are in the package's `dist/`: bindings/getLlama.d.ts, evaluator/{LlamaModel,LlamaContext,LlamaChat}, types.d.ts.
 */

/** The id of a token in the vocabulary of the model. */
export type Token = number

/** A message for node-llama-cpp. The template never reads the text as control tokens. */
export type HistoryItem =
  | { readonly type: 'system' | 'user'; readonly text: string }
  | { readonly type: 'model'; readonly response: readonly string[] }

/** A piece of an answer, in whole characters. */
export interface ResponseChunk {
  readonly text: string
  readonly tokens: readonly Token[]
  /** `thought` and similar for text that is not part of the answer itself. */
  readonly segmentType?: string | undefined
}

/** How an answer is sampled, when it ends, and its callback. */
export interface ResponseOptions {
  readonly signal: AbortSignal
  readonly maxTokens: number
  readonly temperature: number
  readonly topK: number
  readonly topP: number
  readonly minP: number
  readonly seed: number
  readonly repeatPenalty: {
    readonly lastTokens: number
    readonly penalty: number
    readonly frequencyPenalty: number
    readonly presencePenalty: number
  }
  readonly customStopTriggers: readonly string[]
  readonly contextShift: { readonly strategy: () => never }
  readonly onResponseChunk: (chunk: ResponseChunk) => void
}

/** A conversation over one sequence, with the chat template. */
export interface Chat {
  readonly chatWrapper: {
    generateContextState(options: { readonly chatHistory: readonly HistoryItem[] }): {
      readonly contextText: { tokenize(tokenizer: unknown): Token[] }
    }
  }
  generateResponse(
    history: readonly HistoryItem[],
    options: ResponseOptions,
  ): Promise<{ readonly metadata: { readonly stopReason: string } }>
}

/** The tokens that the model has read. The model keeps them between answers. */
export interface Sequence {
  readonly nextTokenIndex: number
  readonly tokenMeter: { readonly usedOutputTokens: number }
  adaptStateToTokens(tokens: readonly Token[], allowShift: boolean): Promise<void>
  evaluateWithoutGeneratingNewTokens(tokens: readonly Token[]): Promise<void>
}

export interface LlamaModel {
  readonly tokenizer: unknown
  /** The context window of the training, in tokens. */
  readonly trainContextSize: number
  tokenize(text: string): Token[]
  createContext(options: {
    readonly contextSize: number
    readonly threads: number
    readonly createSignal: AbortSignal
  }): Promise<{ getSequence(): Sequence }>
}

export interface Llama {
  /** The number of cores that are useful for inference, without hyper-threads and efficiency cores. */
  readonly cpuMathCores: number
  loadModel(options: { readonly modelPath: string; readonly loadSignal: AbortSignal }): Promise<LlamaModel>
  /** Frees the models and contexts as well. */
  dispose(): Promise<void>
}

/** What the package exports. */
export interface NodeLlamaCpp {
  getLlama(options: {
    readonly gpu: 'auto' | false
    /** `never` uses a prebuilt binary or fails; nothing is compiled or downloaded. */
    readonly build: 'never'
    readonly skipDownload: true
    readonly progressLogs: false
    readonly maxThreads: number
    readonly logLevel: 'error'
    readonly logger: (level: string, message: string) => void
  }): Promise<Llama>
  readonly LlamaChat: new (options: { readonly contextSequence: Sequence }) => Chat
}

/** The package is missing, or is another package. The message contains no path and no address, so callers may read it. */
export class NodeLlamaCppError extends Error {}

/**
 * Loads the package, which takes 0.25 s and 100 MB of memory.
 * @throws NodeLlamaCppError if the package is not installed, or is not node-llama-cpp 3; any other error of the import unchanged
 */
export async function loadNodeLlamaCpp(name = 'node-llama-cpp'): Promise<NodeLlamaCpp> {
  let loaded: unknown
  try {
    loaded = await import(name)
  } catch (cause) {
    if (!isMissing(cause, name)) throw cause
    // Without `--save-prod`, npm 11 sees an optional peer, reports "up to date" and installs nothing.
    throw new NodeLlamaCppError(
      `The package ${name}, which runs models of the adapter llama.cpp, is not installed. Run: npm install --save-prod ${name}`,
      { cause },
    )
  }
  if (isNodeLlamaCpp(loaded)) return loaded
  throw new NodeLlamaCppError(`The package ${name} is not node-llama-cpp 3. Install version 3 of it.`)
}

function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false
  return error.code === 'ERR_MODULE_NOT_FOUND' && error.message.includes(`'${name}'`)
}

function isNodeLlamaCpp(value: unknown): value is NodeLlamaCpp {
  if (typeof value !== 'object' || value === null) return false
  const exported = new Map<string, unknown>(Object.entries(value))
  return typeof exported.get('getLlama') === 'function' && typeof exported.get('LlamaChat') === 'function'
}
