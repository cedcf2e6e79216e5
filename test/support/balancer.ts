import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { onTestFinished } from 'vitest'

/** A balancer in front of services, which tries no request twice. */
export interface Balancer {
  readonly url: string
  /** Requests that no service has answered, with the reason of each. */
  readonly failures: readonly string[]
  /** Takes a service into its round as soon as that is ready. */
  add(service: string): void
  /** Tells whether a service gets requests now. */
  hands(service: string): boolean
}

/** Milliseconds between two questions whether a service is ready. */
const interval = 100

/**
 * Starts one until the running test is over. It hands requests to those in turn whose `/readyz` was 200 when they were last
 * asked, on connections that it keeps.
 */
export async function balancerForThisTest(): Promise<Balancer> {
  const ready = new Map<string, boolean>()
  const failures: string[] = []
  const agent = new Agent({ keepAlive: true })
  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const able = [...ready].filter(([, isReady]) => isReady).map(([url]) => url)
    const service = able[turn++ % able.length]
    if (service === undefined) fail(failures, outgoing, 'no service is ready')
    else pass(service, agent, incoming, outgoing, failures)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  let isOver = false
  const looking = look(ready, () => isOver)
  onTestFinished(async () => {
    isOver = true
    await looking
    agent.destroy()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    failures,
    add: (service) => void ready.set(service, false),
    hands: (service) => ready.get(service) === true,
  }
}

/** Asks all services again and again. */
async function look(ready: Map<string, boolean>, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await Promise.all(
      [...ready.keys()].map(async (service) => {
        const answer = await fetch(`${service}/readyz`).catch(() => undefined)
        await answer?.text()
        ready.set(service, answer?.status === 200)
      }),
    )
    await wait(interval)
  }
}

function pass(
  service: string,
  agent: Agent,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  failures: string[],
): void {
  const { method, headers } = incoming
  const asked = request(`${service}${incoming.url}`, { agent, method, headers }, (answer) => {
    const { connection: _, ...kept } = answer.headers
    outgoing.writeHead(answer.statusCode ?? 502, kept)
    answer.pipe(outgoing)
    answer.on('error', (error) => {
      failures.push(`${method} ${incoming.url}: cut, ${error.message}`)
      outgoing.destroy()
    })
  })
  asked.on('error', (error) => fail(failures, outgoing, `${method} ${incoming.url}: ${error.message}`))
  incoming.pipe(asked)
}

function fail(failures: string[], outgoing: ServerResponse, reason: string): void {
  failures.push(reason)
  if (outgoing.headersSent) outgoing.destroy()
  else outgoing.writeHead(502).end()
}
