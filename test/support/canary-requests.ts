import { randomBytes } from 'node:crypto'
import { chunkText, completion, json, pieces, type Script, streamOf } from './upstream.ts'

/** Unique words, one for each part of a request or a reply. A word that appears elsewhere shows a leak. */
export const words = {
  message: 'canaryspoken',
  parameter: 'canaryparameter',
  card: 'canarycard',
  /** A word in a card of the operator's folder. */
  folder: 'canaryfolder',
  header: 'canaryheader',
  reply: 'canaryreply',
  malformed: 'canarymalformed',
  /** The name of an unknown model. Usage reports show the name that the caller sent. */
  model: 'canarymodel',
  plant: 'canaryplant',
  idempotency: 'canaryidempotency',
  /** A word in a URL that the upstream quotes. */
  inUrl: 'canaryinurl',
}

/** The secrets of the operator, as environment variables that `models.json` refers to. */
export const operatorKeys = {
  CANARY_OPENAI: `sk-${randomBytes(16).toString('hex')}`,
  CANARY_PLAIN: randomBytes(12).toString('hex'),
  CANARY_ANTHROPIC: `sk-ant-${randomBytes(16).toString('hex')}`,
  CANARY_GOOGLE: `AIza${randomBytes(16).toString('hex')}`,
  CANARY_HEADER: randomBytes(12).toString('hex'),
}

/** Invalid keys: a key that was never made, and a key with a wrong checksum. The test adds a revoked key. */
export const wrongKeys = [randomBytes(16).toString('hex'), `cv_${randomBytes(19).toString('hex')}`]

/** Models with different adapters, all with the same upstream. */
export function canaryModels(baseUrl: string): Readonly<Record<string, unknown>> {
  const once = { retries: 0, breaker: { failures: 0 } }
  const openAi = (name: string) => ({ adapter: 'openai', baseUrl, apiKey: `$\{${name}}`, ...once })
  return {
    keyed: { ...openAi('CANARY_OPENAI'), headers: { 'x-tenant': `$\{CANARY_HEADER}` } },
    plain: openAi('CANARY_PLAIN'),
    claude: { adapter: '@ai-sdk/anthropic', baseUrl, apiKey: `$\{CANARY_ANTHROPIC}`, model: 'claude', ...once },
    gemini: { adapter: '@ai-sdk/google', baseUrl, apiKey: `$\{CANARY_GOOGLE}`, model: 'gemini', ...once },
    list: { fallback: ['keyed', 'plain', 'understudy'] },
    hanging: { ...openAi('CANARY_OPENAI'), model: 'hanging' },
    understudy: { adapter: 'understudy' },
  }
}

/** Answers in turn with successes and failures. A failure quotes the keys and the body of the call, and a URL. */
export function quotingScript(): Script {
  let turn = 0
  return (response, call) => {
    const { authorization, 'x-api-key': anthropic, 'x-goog-api-key': google, 'x-tenant': tenant } = call.headers
    const key = authorization?.replace('Bearer ', '') ?? anthropic ?? google
    const quote = `Not known: ${key} of ${tenant} at https://user:${words.inUrl}@10.1.2.3/v1?key=${words.inUrl}: ${JSON.stringify(call.body)}`
    const first = `data: ${chunkText({ content: words.reply })}\n\n`
    if (call.body['model'] === 'hanging') return pieces([first], 'hang')(response, call)
    const well = call.body['stream'] === true ? pieces(streamOf(words.reply)) : json(completion(words.reply))
    const ill: readonly Script[] = [
      ...[200, 400, 401, 403, 404, 429, 500, 503].map((status) =>
        json({ error: { message: quote, type: quote, code: quote, param: quote } }, status),
      ),
      (to) => void to.writeHead(500, { 'x-key': quote.replace(/[^ -~]/g, '') }).end(`<html>${quote}</html>`),
      (to) => void to.socket?.end(`${quote}\r\n`),
      pieces([first, `data: {"error":{"message":${JSON.stringify(quote)}}}\n\n`]),
      pieces([first, `data: ${quote}\n\n`]),
      pieces([first, 'data: {"x":"'], 'cut'),
    ]
    turn++
    return (turn % 3 === 0 ? well : (ill[turn % ill.length] ?? well))(response, call)
  }
}

/** One request, and the words that its reply may contain. */
export interface CanaryRequest {
  readonly path: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly shows?: readonly string[]
  /** Whether the caller disconnects as soon as the reply has begun. */
  readonly leave?: true
}

/** A card with a unique word in its description. Only the model and readers of the card may see the description. */
export function cardText(name: string, word: string): string {
  return JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data: { name, description: `Says ${word}.` } })
}

/** Requests of all kinds, some with a wrong key. @param plantsOnly a key that may only read plants; one request uses it */
export function requestsOf(turn: number, wrong: readonly string[], plantsOnly: string): readonly CanaryRequest[] {
  const { message, parameter, card, plant, reply, malformed, model, idempotency } = words
  const post = (path: string, body: unknown, more: Partial<CanaryRequest> = {}): CanaryRequest => ({
    path,
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...more,
  })
  const spoken = [
    { role: 'system', content: `Be ${message}.` },
    { role: 'user', name: message, content: [{ type: 'text', text: `I am ${message}.` }] },
  ]
  const chat = (more: Record<string, unknown>, shows: readonly string[] = []): CanaryRequest =>
    post('/chat/completions', { messages: spoken, user: parameter, metadata: { parameter }, ...more }, { shows })
  // A reply may contain these words, because a model may repeat its prompt, and an upstream may quote a refused request.
  const own = [reply, message, parameter, card, words.folder]
  const asked = ['keyed', 'plain', 'keyed', 'list', 'claude', 'gemini', 'plain', 'keyed'].map((name, index) =>
    chat({ model: name, character: index % 4 === 2 ? 'Rust' : 'Moss', stream: index % 2 === turn % 2 }, own),
  )
  const mine = `${-1 - turn}`
  return [
    ...asked,
    chat({ model: 'understudy', character: 'Moss', stream: turn % 2 === 0 }, [card, message]),
    { ...chat({ model: 'hanging', stream: true }, [reply]), leave: true },
    post('/chat/prompt', { model: 'keyed', character: 'Moss', messages: spoken }, { shows: [card, message] }),
    post('/chat/prompt', { model: 'keyed', character: 'Rust', messages: spoken }, { shows: [message] }),
    chat({ model }, [model]),
    chat({ model: 'keyed', messages: [{ role: malformed, content: message }] }),
    chat({ model: 'keyed', n: message }),
    chat({ model: 'keyed', messages: message }),
    post('/chat/completions', `{"model": "keyed", "messages": [${malformed}`),
    post('/v1/chat/completions', `{"${message}": "${malformed}", "${message}": 1}`),
    post('/chat/completions', malformed, { headers: { 'content-type': `text/${malformed}` } }),
    post('/plants', { id: Number(mine), name: `${plant} ${turn}`, tag: plant }, { shows: [plant] }),
    post('/plants', { name: plant }, { headers: { 'idempotency-key': `${idempotency}-${turn}` }, shows: [plant] }),
    post('/plants', { name: { malformed } }),
    post('/plants', { name: malformed.repeat(30) }),
    post('/plants', `{"name": "${malformed}`),
    post('/plants', `{"name": "${malformed}\\u0007"}`),
    { path: `/plants?limit=3&tag=${plant}`, shows: [plant] },
    { path: `/plants/${mine}`, shows: [plant] },
    { path: `/plants/${mine}`, method: 'DELETE' },
    { path: `/plants/${malformed}?key=${malformed}` },
    { path: `/plants?limit=${malformed}` },
    { path: `/plants?after=${malformed}` },
    { path: '/characters' },
    { path: '/characters/Moss', shows: [card] },
    { path: '/characters/Moss?format=png' },
    { path: '/characters/Rust' },
    { path: '/characters/Rust?format=json' },
    { path: `/characters/${malformed}?format=${malformed}` },
    post('/characters', `{"spec": "chara_card_v3", "data": {"name": 5, "description": "${card} ${malformed}"}}`),
    post('/characters', `{"spec": "${malformed}`),
    { path: '/characters/Moss', method: 'PUT', body: cardText('Moss', card) },
    { path: '/models' },
    { path: `/models/${model}`, shows: [model] },
    { path: '/usage?by=model', shows: [model] },
    { path: `/usage?from=${malformed}&by=day` },
    { path: `/requests/${malformed}` },
    { path: `/${malformed}?key=${malformed}` },
    { path: `/%zz${malformed}` },
    { path: `/plants`, method: 'PATCH', body: malformed },
    { ...chat({ model: 'keyed' }), headers: { authorization: wrong[turn % wrong.length] ?? '' } },
    { ...chat({ model: 'keyed' }), headers: { authorization: plantsOnly } },
    { path: '/plants', headers: { authorization: `Bearer ${wrong[(turn + 1) % wrong.length]}` } },
  ]
}
