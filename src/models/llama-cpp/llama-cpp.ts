import { ApiError, clientGone } from '../../errors.ts'
import type { Usage } from '../../openai/completion.ts'
import type { ProgressOutput } from '../../print.ts'
import { progressOutput } from '../../print.ts'
import { noProxies, type Proxies } from '../../proxies.ts'
import type { LlamaCppSettings } from '../configuration/settings.ts'
import type { Model, ModelEvent, ModelReply, ModelRequest } from '../model.ts'
import { Channel } from './channel.ts'
import { type Answer, Engine } from './engine.ts'
import { loadNodeLlamaCpp, NodeLlamaCppError } from './node-llama-cpp.ts'
import { Queue } from './queue.ts'
import { type AnswerEvent, Reply } from './reply.ts'
import { ignoredParameters, readTask, type Task } from './request.ts'
import { findWeights } from './weights.ts'

/** A model in the memory of this process. */
export interface LlamaCppModel extends Model {
  /** Ends requests in flight, and frees the memory. */
  close(): Promise<void>
}

/** Options of downloads, and the parts that tests replace. */
export interface LlamaCppOptions {
  /** The output for the progress of downloads and for llama.cpp's own errors. By default it is stderr. */
  readonly output?: ProgressOutput
  readonly packageName?: string
  /** The proxies for downloads of weights. */
  readonly proxies?: Proxies
}

/** Maximum requests that wait while another request runs. */
const defaultMaxWaiting = 32

/**
 * If the model cannot be loaded, the failure is cached for this time. Otherwise every request would download the weights again.
 */
const failureCacheMs = 60_000

/**
 * Runs weights from a GGUF file in this process, with node-llama-cpp. The first request loads the model: it downloads the weights
 * if the settings have an address and the file is missing, checks the file, and reads it. Requests are answered one at a time.
 * @param folder the folder for downloads; relative paths in the settings start there too
 */
export function createLlamaCppModel(
  settings: LlamaCppSettings,
  folder: string,
  { output = progressOutput(), packageName = 'node-llama-cpp', proxies = noProxies }: LlamaCppOptions = {},
): LlamaCppModel {
  const queue = new Queue(settings.queue ?? defaultMaxWaiting)
  const closing = new AbortController()
  let loading: Promise<Engine> | undefined
  let closed: Promise<void> | undefined

  const open = async (): Promise<Engine> => {
    const options = { folder, signal: closing.signal, output, proxies }
    // The package is loaded first. If it is missing, a download of gigabytes would be useless.
    const nodeLlamaCpp = await loadNodeLlamaCpp(packageName)
    return Engine.open(nodeLlamaCpp, await findWeights(settings, options), settings, options)
  }

  const load = (): Promise<Engine> => {
    loading ??= open().catch((error: unknown) => {
      setTimeout(() => {
        loading = undefined
      }, failureCacheMs).unref()
      throw loadFailure(error)
    })
    return loading
  }

  /**
   * Runs a task when the queue admits it, and reports each event. If a task is aborted, the next task waits until it has stopped.
   */
  const work = async (request: ModelRequest, caller: AbortSignal, onEvent: OnEvent): Promise<Usage> => {
    const task = readTask(request)
    const signal = AbortSignal.any([caller, closing.signal])
    let leave: (() => void) | undefined
    try {
      leave = await queue.enter(signal)
      const engine = await untilAborted(load(), signal)
      request.onSent?.(true)
      return await answerAll(engine, task, signal, onEvent)
    } catch (error) {
      throw failure(error, caller, closing.signal)
    } finally {
      leave?.()
    }
  }

  const end = async (): Promise<void> => {
    closing.abort()
    await queue.close()
    await loading?.then(
      (engine) => engine.close(),
      () => undefined,
    )
  }

  return {
    ignoredParameters,

    async complete(request, signal): Promise<ModelReply> {
      const answers: Answer[] = []
      const usage = await work(request, signal, (event) => {
        if ('ends' in event) answers.push(event.ends)
      })
      return { completion: new Reply(request.body.model).completion(answers, usage) }
    },

    async *stream(request: ModelRequest, signal): AsyncIterable<readonly ModelEvent[]> {
      const reply = new Reply(request.body.model)
      const left = new AbortController()
      const answerEvents = new Channel<AnswerEvent>()
      const usage = work(request, AbortSignal.any([signal, left.signal]), (event) => answerEvents.push(event))
      // After a failure, the events that have already come are yielded first. Then `await usage` throws the failure.
      const over = usage.then(
        () => answerEvents.close(),
        () => answerEvents.close(),
      )
      try {
        for await (const group of answerEvents) yield group.map((event) => reply.event(event))
        yield [reply.usage(await usage)]
      } finally {
        left.abort()
        await over
      }
    },

    close() {
      closed ??= end()
      return closed
    },
  }
}

type OnEvent = (event: AnswerEvent) => void

/** Makes all choices. Each choice has a different seed. */
async function answerAll(engine: Engine, task: Task, signal: AbortSignal, onEvent: OnEvent): Promise<Usage> {
  const prompt = await engine.prepare(task.history, signal)
  const prompt_tokens = prompt.tokens.length
  let completion_tokens = 0
  for (let index = 0; index < task.choices; index += 1) {
    let hasBegun = false
    const begin = () => {
      if (!hasBegun) onEvent({ index, begins: true })
      hasBegun = true
    }
    const sampling = { ...task.sampling, seed: (task.sampling.seed + index) >>> 0 }
    const answer = await engine.answer(prompt, sampling, task.maxTokens, signal, (piece) => {
      begin()
      onEvent({ index, piece })
    })
    begin()
    onEvent({ index, ends: answer })
    completion_tokens += answer.tokens
  }
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

/** Waits for a shared promise until the signal aborts. An abort does not affect other requests that wait for the same promise. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/**
 * The error for a model that cannot be loaded. Callers learn only if the package is missing. Paths and addresses go to the log.
 */
function loadFailure(cause: unknown): ApiError {
  const reason =
    cause instanceof NodeLlamaCppError
      ? cause.message
      : 'The model cannot be loaded. Tell the operator: the log has the reason.'
  const headers = { 'retry-after': String(failureCacheMs / 1000) }
  return new ApiError(503, 'model_unavailable', reason, { cause, headers })
}

function failure(error: unknown, caller: AbortSignal, closing: AbortSignal): unknown {
  if (error instanceof ApiError) return error
  if (caller.aborted) {
    return caller.reason instanceof ApiError ? caller.reason : clientGone(caller.reason)
  }
  if (closing.aborted) return new ApiError(503, 'model_unavailable', 'The model is being closed. Try again later.')
  return new ApiError(502, 'upstream_error', 'The model failed. Try again.', { cause: error })
}
