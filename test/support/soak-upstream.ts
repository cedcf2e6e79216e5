import { chunkText, completion, json, pieces, type Script, streamOf } from './upstream.ts'

/** The upstream of a soak: most answers are correct, and the others are wrong in different ways. */
export const unsteady: Script = async (response, call) => {
  const chance = Math.random()
  const isStreamed = call.body['stream'] === true
  const events = streamOf('Water it less, and give it light.')
  if (chance < 0.05) return json({ error: { message: 'Too many.' } }, 429, { 'retry-after': '0' })(response, call)
  if (chance < 0.1) return json({ error: { message: 'Broken.' } }, 500)(response, call)
  if (chance < 0.15) return void response.writeHead(200, { 'content-type': 'application/json' }).end('<garbage')
  if (chance < 0.2) return void response.socket?.resetAndDestroy()
  // No answer: the service waits until a timeout of the model, and closes the connection.
  if (chance < 0.23) return
  if (!isStreamed) return json(completion('Water it less.'))(response, call)
  if (chance < 0.28) return pieces(events.slice(0, 4), 'cut')(response, call)
  if (chance < 0.33) return pieces(events.slice(0, 4), 'hang')(response, call)
  if (chance < 0.38) return pieces([`data: ${chunkText({ content: 'One' })}\n\n`, 'data: {garbage\n\n'])(response, call)
  return pieces(events)(response, call)
}

/** The models of a soak, for its `models.json`. */
export function soakModels(upstreamUrl: string): Readonly<Record<string, unknown>> {
  const timeouts = { firstToken: 300, idle: 200, total: 2000 }
  const adapter = { adapter: 'openai', baseUrl: upstreamUrl, timeouts, breaker: { failures: 0 } }
  return {
    understudy: { adapter: 'understudy' },
    unsteady: { ...adapter, retries: 0 },
    retried: { ...adapter, retries: 2 },
    saved: { fallback: ['unsteady', 'understudy'] },
  }
}
