import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { onTestFinished } from 'vitest'

/** A load balancer in front of services, without retries. */
export interface Balancer {
  readonly url: string
  /** A line for each request without a complete reply, with the reason. */
  readonly failures: readonly string[]
  /** Adds a service, which gets requests as soon as it is ready. */
  add(service: string): void
  /** Whether the balancer sends requests to this service now. */
  hands(service: string): boolean
}

/** Milliseconds between two readiness checks. */
const interval = 100

/**
 * Starts a balancer, and stops it at the end of the running test. The balancer sends requests in turn to the services whose
 * `/readyz` was 200 at the last check, on keep-alive connections.
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

/** Checks repeatedly whether each service is ready. */
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
