import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import { hasModelList } from '../access/model-lists.ts'
import type { Persona } from '../characters/prompt/composition.ts'
import { ApiError, toApiError } from '../errors.ts'
import { hasLargeBody } from '../http/json.ts'
import { promptEstimate, replyEstimate } from '../limits/estimate.ts'
import { UpstreamReason } from '../models/reason.ts'
import type { Candidate } from '../models/routing/candidate.ts'
import type { Asking, ReportFailure, Route } from '../models/routing/route.ts'
import { countsOf, isEmptyUsage } from '../openai/completion.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { recordedReason } from '../openai/finish-reasons.ts'
import type { MeteredRequest } from '../usage/metered-request.ts'
import { type End, Outcome } from '../usage/outcome.ts'
import type { Work } from '../work/work.ts'
import type { OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'
import type { ReplyFormat } from './reply-format.ts'
import type { RequestComposer } from './request-composer.ts'
import { personaName, type ResolvedPersona, requestTextsOf, resolvePersona, resolveRequest } from './resolve-persona.ts'
import { truncationOf, UsageWatch, usageOf } from './usage.ts'

// The first request that needs one of these modules loads it, so the service starts faster.
let composing: typeof import('./request-composer.ts') | undefined
let streaming: typeof import('./reply.ts') | undefined

/** A chat request while it is answered. */
interface Turn {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly body: CompletionRequest
  readonly format: ReplyFormat
  readonly persona: Persona
  readonly route: Route
  readonly composer: RequestComposer
  readonly work: Work
  readonly outcome: Outcome
  /** Aborts when the client leaves, when its key ends, or shortly before the grace period of a stopping service is over. */
  readonly signal: AbortSignal
  readonly options: ChatOptions
  /** Undefined until the first usable candidate is about to be asked. */
  metered: MeteredRequest | undefined
}

/**
 * Sends a request to a model, and sends the model's answer to the client, either whole or as a stream.
 * @param replies the replies that are not complete. The reply to this request is added
 * @throws ApiError for a failure before the reply has begun
 */
export async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  sent: CompletionRequest,
  format: ReplyFormat,
  options: ChatOptions,
  replies: OpenReplies,
): Promise<FastifyReply> {
  const wanted = resolveRequest(sent, options.models, callerOf(request))
  if (!wanted) {
    const caller = callerOf(request)
    throw options.models.notFound(sent.model, caller, await options.library.names(caller.account.id))
  }
  // The signal is made before the first `await`. Otherwise a client that leaves during the wait would not be noticed.
  const signal = replies.signalOf(reply)
  const { body } = wanted
  let { route } = wanted
  route.enter()
  let turn: Turn | undefined
  try {
    const resolved = await resolvePersona(request, reply, wanted, options)
    resolved.route.enter()
    route.leave()
    route = resolved.route
    composing ??= await import('./request-composer.ts')
    if (body.stream === true) streaming ??= await import('./reply.ts')
    turn = beginTurn({ request, reply, body, format, options, signal }, resolved, composing)
    return streaming && body.stream === true ? await sendStream(turn, streaming) : await sendWhole(turn)
  } catch (thrown) {
    const error = toApiError(thrown)
    if (turn) await endTurn(turn, error)
    throw error
  } finally {
    route.leave()
  }
}

function beginTurn(
  asked: Pick<Turn, 'request' | 'reply' | 'body' | 'format' | 'options' | 'signal'>,
  resolved: ResolvedPersona,
  { RequestComposer }: typeof import('./request-composer.ts'),
): Turn {
  const { request, reply, body, format, options, signal } = asked
  const { persona, route } = resolved
  const outcome = new Outcome(options.clock)
  // Another listener of this event writes the log line. This listener must run first, so that the line has these facts.
  reply.raw.prependOnceListener('close', () => Object.assign(request.facts, factsOf(route, outcome)))
  const work = options.workOf(request, signal)
  const texts = requestTextsOf(request, body, resolved)
  const sources = { settings: options.prompt, worldBooks: options.library.worldBooks, texts }
  const details = {
    trace: request.trace,
    openHeld: () => options.openHeld(request),
    readAll: format.includesUsage,
    isRewritten: format.isRewritten,
    onSent: (isSent: boolean) => outcome.noteSent(isSent),
    hasModelList: hasModelList(callerOf(request)),
    isLarge: hasLargeBody(request),
    // The id is random. Writing a random number as a text takes as long as copying the request.
    randomSeed: request.id,
  }
  const composer = new RequestComposer(body, persona, sources, work, details, format)
  return { ...asked, persona, route, composer, work, outcome, metered: undefined }
}

/** Ends a turn that has failed before its reply began. */
async function endTurn({ request, outcome, metered }: Turn, error: ApiError): Promise<void> {
  if (metered) await metered.end(error)
  else outcome.end(error)
  logRefusal(request, error)
}

/** How the candidates of a turn are asked. The first usable candidate is asked when the limits admit what it may need. */
function askingOf(turn: Turn): Asking {
  const { composer, signal, request } = turn
  return {
    requestFor: composer.requestFor,
    signal,
    enter: (candidate) => enter(turn, candidate),
    reportFailure: logFailures(request),
  }
}

/**
 * Reserves the tokens that a candidate may need.
 * @throws ApiError 429 for a reached limit, 503 without the database
 */
function enter(turn: Turn, candidate: Candidate): Promise<void> | undefined {
  const { request, reply, body, format, persona, outcome, options } = turn
  const { request: asked, size, bounds } = turn.composer.composedFor(candidate)
  // The closures below stay in memory until the reply is over. So they use only the body, and not the whole composed request.
  const { body: prompt } = asked
  const toMeter = {
    id: request.id,
    key: callerOf(request),
    model: body.model,
    character: personaName(persona),
    promptTokens: () => promptEstimate(prompt, size),
    replyTokens: () => replyEstimate(bounds),
  }
  const admit = (metered: MeteredRequest) => {
    turn.metered = metered
    if (body.stream === true) format.prepare?.()
    reply.headers(metered.headers)
  }
  const entered = options.metering.enter(toMeter, outcome)
  if (entered instanceof Promise) return entered.then(admit)
  admit(entered)
  return undefined
}

/** The metered request of a turn that has an answer. */
function meteredOf({ metered }: Turn): MeteredRequest {
  if (!metered) throw new Error('A model has answered a request that was not admitted.')
  return metered
}

/** Asks for the whole answer, and sends it. */
async function sendWhole(turn: Turn): Promise<FastifyReply> {
  const { route, composer, format, work, reply } = turn
  const answer = await route.complete(askingOf(turn))
  const metered = meteredOf(turn)
  noteAnswering(answer, turn)
  const { choices, usage: said } = answer.completion
  const isReported = countsOf(said) !== undefined
  const isEstimated = !isReported && (format.includesUsage || isEmptyUsage(said))
  const usage = isEstimated ? await usageOf(answer, composer.promptOf(answer.candidate), work) : said
  metered.meter.setUsage(usage, isReported)
  for (const { message } of choices) metered.meter.countText(message)
  const looking = recordTruncation(turn, answer.candidate)
  const truncated = looking && (await looking)
  if (truncated) reply.header('x-upstream-truncated', truncated)
  const whole = format.whole(answer, usage)
  const json = Array.isArray(whole) ? Buffer.concat(whole) : Buffer.isBuffer(whole) ? whole : JSON.stringify(whole)
  const kept = metered.end(recordedReason(choices[0]?.finish_reason))
  if (kept) await kept
  return reply.type('application/json; charset=utf-8').send(json)
}

/** Asks for the answer as a stream, and sends the stream as it comes. Resolves when the stream is over. */
async function sendStream(turn: Turn, { sendEvents }: typeof import('./reply.ts')): Promise<FastifyReply> {
  const { format, route, composer, work, request, reply, outcome } = turn
  const { sseKeepaliveMs: keepaliveMs, clock } = turn.options
  const usage = format.includesUsage ? new UsageWatch(work) : null
  let answering: Candidate | undefined
  const opening = route.open(askingOf(turn)).then((opened) => {
    noteAnswering(opened, turn)
    meteredOf(turn).began()
    answering = opened.candidate
    usage?.begin(composer.promptOf(opened.candidate))
    return opened.events
  })
  const onEnd = (end: End) => {
    if (end instanceof ApiError && end.status >= 500)
      request.log.error({ request_id: request.id, err: end.cause ?? end }, end.code)
    return meteredOf(turn).end(end)
  }
  const truncation = () => answering && recordTruncation(turn, answering)
  await sendEvents(reply, opening, {
    format,
    usage,
    meter: outcome.meter,
    keepaliveMs,
    clock,
    onEnd,
    truncation,
  })
  return reply
}

/**
 * Checks whether the upstream has truncated the prompt, and records the result.
 * @returns what `truncationOf` returns: nearly always undefined, without a promise
 */
function recordTruncation({ composer, outcome, work }: Turn, candidate: Candidate): Promise<string | null> | undefined {
  const looking = truncationOf(outcome.meter.reportedPromptTokens, composer.promptOf(candidate), work)
  return looking?.then((truncated) => {
    outcome.truncated = truncated
    return truncated
  })
}

/**
 * Logs the failure of a model before the next model of the route is asked. If the next model answers, this is the only log line
 * with the failure.
 */
function logFailures({ log, id }: FastifyRequest): ReportFailure {
  return ({ traits }, error) =>
    log.warn(
      { request_id: id, model: traits.name, err: error.cause ?? error },
      `${error.code}: the next model is asked`,
    )
}

/**
 * Logs a refusal of an upstream that the caller gets as a 4xx. Only this log line has the upstream's reason, and only the
 * operator can correct some of the causes.
 */
function logRefusal({ log, id }: FastifyRequest, { status, code, cause }: ApiError): void {
  const isRefusal = status < 500 && status !== 499
  if (isRefusal && cause instanceof UpstreamReason) log.warn({ request_id: id, err: cause }, code)
}

/** Records which candidate answers. If the reply headers are not sent yet, they name the candidate. */
function noteAnswering(
  { candidate, retries }: { readonly candidate: Candidate; readonly retries: number },
  { composer, outcome, reply }: Turn,
): void {
  const { configuredName, traits } = candidate
  outcome.answering = { name: traits.name, configuredName, retries }
  if (!reply.sent) reply.headers(composer.headersFor(candidate))
}

/** The fields that a chat request adds to its log line. */
function factsOf({ name }: Route, { answering, reason, truncated }: Outcome) {
  return {
    model: name,
    ...(answering ? { model_used: answering.name, retries: answering.retries } : {}),
    ...(reason === undefined ? {} : { state: reason }),
    ...(truncated === null ? {} : { upstream_truncated: truncated }),
  }
}
