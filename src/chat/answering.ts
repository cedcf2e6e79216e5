import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import type { Persona } from '../characters/prompt/settings.ts'
import { ApiError, toApiError } from '../errors.ts'
import { promptEstimate, replyEstimate } from '../limits/estimate.ts'
import { UpstreamReason } from '../models/reason.ts'
import type { Candidate } from '../models/routing/candidate.ts'
import type { ReportFailure, Route } from '../models/routing/route.ts'
import { countsOf, isEmptyUsage } from '../openai/completion.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { recordedReason } from '../openai/finish-reasons.ts'
import type { MeteredRequest, Metering } from '../usage/metered-request.ts'
import { type End, Outcome } from '../usage/outcome.ts'
import type { Work } from '../work.ts'
import { type Casting, castRequest, playedName, wantedRequest } from './casting.ts'
import type { Exchange } from './exchange.ts'
import type { OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'
import { requestTextsOf } from './request-texts.ts'
import { truncationOf } from './truncation.ts'
import { UsageWatch, usageOf } from './usage.ts'
import type { Voice } from './voice.ts'

// How prompts are composed, and how replies are streamed, is loaded with the first request of the kind.
let exchanging: typeof import('./exchange.ts') | undefined
let streaming: typeof import('./reply.ts') | undefined

/**
 * Asks a model for what a request wants, and sends its answer, whole or as a stream.
 * @param voice writes the answer
 * @param replies keeps those that are not complete
 * @throws ApiError for whatever ends it before the reply has begun
 */
export async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  sent: CompletionRequest,
  voice: Voice,
  options: ChatOptions,
  replies: OpenReplies,
): Promise<FastifyReply> {
  const wanted = wantedRequest(sent, options.models, callerOf(request))
  // Before anything waits: a client that leaves meanwhile is noticed.
  const signal = replies.signalOf(reply)
  return wanted.route.use(async () => {
    const casting = await castRequest(request, reply, wanted, options)
    const asked = { request, reply, body: wanted.body, signal }
    const answering = () => answerAs(casting, asked, voice, options)
    return casting.route === wanted.route ? await answering() : await casting.route.use(answering)
  })
}

/** Asks the model of a casting, and sends its answer. @throws ApiError as `answer` */
async function answerAs(
  casting: Casting,
  { request, reply, body, signal }: Pick<Turn, 'request' | 'reply' | 'body' | 'signal'>,
  voice: Voice,
  options: ChatOptions,
): Promise<FastifyReply> {
  const { persona, route } = casting
  const outcome = new Outcome()
  // Before the log line, which is written then.
  reply.raw.prependOnceListener('close', () => Object.assign(request.facts, factsOf(route, outcome)))
  exchanging ??= await import('./exchange.ts')
  if (body.stream === true) streaming ??= await import('./reply.ts')
  const work = options.workOf(request, signal)
  const more = {
    trace: request.trace,
    openHeld: () => options.openHeld(request),
    readAll: voice.tellsUsage,
  }
  const texts = await requestTextsOf(request, body, casting, work)
  const making = { settings: options.prompt, worldBooks: options.library.worldBooks, texts }
  const exchange = new exchanging.Exchange(body, persona, making, work, more, voice)
  const turn: Turn = { request, reply, body, voice, persona, route, exchange, work, outcome, signal }
  let metered: MeteredRequest | undefined
  try {
    metered = await enter(turn, options.metering)
    reply.headers(metered.headers)
    if (!streaming || body.stream !== true) return await sendWhole(turn, metered)
    await sendStream(turn, metered, streaming, options)
    return reply
  } catch (thrown) {
    const error = toApiError(thrown)
    if (metered) await metered.end(error)
    else outcome.end(error)
    tellOfRefusal(request, error)
    throw error
  }
}

/** One request on its way to a model and back. */
interface Turn {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly body: CompletionRequest
  readonly voice: Voice
  readonly persona: Persona
  readonly route: Route
  readonly exchange: Exchange
  readonly work: Work
  readonly outcome: Outcome
  /** Aborts when nobody wants the answer any more. */
  readonly signal: AbortSignal
}

/** Holds what the first candidate may use that can be asked. @throws ApiError as `Exchange.ask` and `Metering.enter` do */
async function enter(turn: Turn, metering: Metering): Promise<MeteredRequest> {
  const { request, body, persona, route, exchange, outcome, signal } = turn
  const candidate = await route.findFirstUsable(exchange.requestFor, signal)
  const { request: asked, bounds } = await exchange.ask(candidate)
  // Of the request no more than this: what is asked when the reply is over has to stay in memory until then.
  const { body: prompt } = asked
  const toMeter = {
    id: request.id,
    key: callerOf(request),
    model: body.model,
    character: playedName(persona),
    promptTokens: () => promptEstimate(prompt),
    replyTokens: () => replyEstimate(bounds),
  }
  return metering.enter(toMeter, outcome)
}

/** Asks for the whole answer, and sends it. */
async function sendWhole(turn: Turn, metered: MeteredRequest): Promise<FastifyReply> {
  const { request, route, exchange, voice, work, reply, signal } = turn
  const answer = await route.complete(exchange.requestFor, signal, tellOfFailures(request))
  tellOf(answer, turn)
  const { choices, usage: said } = answer.completion
  const isTold = countsOf(said) !== undefined
  const isEstimated = !isTold && (voice.tellsUsage || isEmptyUsage(said))
  const usage = isEstimated ? await usageOf(answer, exchange.promptOf(answer.candidate), work) : said
  metered.meter.setUsage(usage, isTold)
  for (const { message } of choices) metered.meter.countText(message)
  const looking = lookForTruncation(turn, answer.candidate)
  const truncated = looking && (await looking)
  if (truncated) reply.header('x-upstream-truncated', truncated)
  await metered.end(recordedReason(choices[0]?.finish_reason))
  return reply.type('application/json; charset=utf-8').send(voice.whole(answer, usage))
}

/** Asks for the answer as a stream, and sends that as it comes; resolves when that is over. */
async function sendStream(
  turn: Turn,
  metered: MeteredRequest,
  { sendEvents }: typeof import('./reply.ts'),
  { sseKeepaliveMs, clock }: ChatOptions,
): Promise<void> {
  const { voice, route, exchange, work, request, reply, signal } = turn
  const usage = voice.tellsUsage ? new UsageWatch(work) : null
  let answering: Candidate | undefined
  const opening = route.open(exchange.requestFor, signal, tellOfFailures(request)).then((opened) => {
    tellOf(opened, turn)
    metered.began()
    answering = opened.candidate
    usage?.begin(exchange.promptOf(opened.candidate))
    return opened.events
  })
  const onEnd = (end: End) => {
    if (end instanceof ApiError && end.status >= 500)
      request.log.error({ request_id: request.id, err: end.cause ?? end }, end.code)
    return metered.end(end)
  }
  const truncation = () => answering && lookForTruncation(turn, answering)
  const more = { keepaliveMs: sseKeepaliveMs, clock, onEnd, truncation }
  await sendEvents(reply, opening, { voice, usage, meter: metered.meter, ...more })
}

/** Notes how little of the prompt an upstream has read, where it was too little; nothing is waited for where that is sure at once. */
function lookForTruncation(
  { exchange, outcome, work }: Turn,
  candidate: Candidate,
): Promise<string | null> | undefined {
  const looking = truncationOf(outcome.meter.reportedPromptTokens, exchange.promptOf(candidate), work)
  return looking?.then((truncated) => {
    outcome.truncated = truncated
    return truncated
  })
}

/** Leaves a line for each model of a list that failed: where a later one answers, nothing else tells of it. */
function tellOfFailures({ log, id }: FastifyRequest): ReportFailure {
  return ({ traits }, error) =>
    log.warn(
      { request_id: id, model: traits.name, err: error.cause ?? error },
      `${error.code}: the next model is asked`,
    )
}

/** Leaves a line for what an upstream refused, which callers are told of and no other line: it may be the operator's to mend. */
function tellOfRefusal({ log, id }: FastifyRequest, { status, code, cause }: ApiError): void {
  const isRefusal = status < 500 && status !== 499
  if (isRefusal && cause instanceof UpstreamReason) log.warn({ request_id: id, err: cause }, code)
}

/** Notes which candidate answers, and tells the caller while that can be told. */
function tellOf(
  { candidate, retries }: { readonly candidate: Candidate; readonly retries: number },
  { exchange, outcome, reply }: Turn,
): void {
  const { configuredName, traits } = candidate
  outcome.answering = { name: traits.name, configuredName, retries }
  if (!reply.sent) reply.headers(exchange.headersFor(candidate))
}

/** The log's words on a request. */
function factsOf({ name }: Route, { answering, reason, truncated }: Outcome) {
  return {
    model: name,
    ...(answering ? { model_used: answering.name, retries: answering.retries } : {}),
    ...(reason === undefined ? {} : { state: reason }),
    ...(truncated === null ? {} : { upstream_truncated: truncated }),
  }
}
