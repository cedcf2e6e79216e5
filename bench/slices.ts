import { readdirSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { percentile } from './measure.ts'
import { benchKey, type Measured } from './processes.ts'

/*
 * Sends requests to two services in turn, in slices of a fifth of a second. With such short slices, other programs slow down
 * both services equally, and neither service is idle long enough to collect garbage.
 */

/** The duration of a slice, and the number of slices of each service in a pair. */
const sliceMs = 200
const slicesOfPair = 6
/** The number of pairs before the measurement, while Node compiles. */
const warmUps = 4
/** The number of connections to a service. With at most 12 requests in a turn of the event loop, load shedding refuses none. */
const standardConnections = 12

/** A source of requests. */
export interface Asking {
  /** The number of connections, by default 12. */
  readonly connections?: number
  /** The path, and the body of a `POST` or of another method; without a body the request is a `GET`. */
  next(): { readonly path: string; readonly body?: string; readonly method?: string }
}

interface Connection {
  readonly socket: Socket
  /** When the last request was sent. */
  sentAt: number
}

/** Connections to a service. During a slice, each connection sends its next request as soon as its last request is answered. */
export class Caller {
  readonly #pid: number
  readonly #port: number
  readonly #asking: Asking
  readonly #connections: number
  readonly #idle: Connection[] = []
  #isOpen = false
  #latencies: number[] = []
  #failed: string | undefined
  #end: (() => void) | undefined

  constructor({ pid, port }: Measured, asking: Asking) {
    this.#pid = pid
    this.#port = port
    this.#asking = asking
    this.#connections = asking.connections ?? standardConnections
  }

  async open(): Promise<void> {
    while (this.#idle.length < this.#connections) this.#idle.push(await this.#connected())
  }

  /** Sends requests for one slice. @returns the CPU nanoseconds of the service, and the milliseconds of each answered request */
  async slice(): Promise<{ readonly nanoseconds: number; readonly latencies: readonly number[] }> {
    this.#isOpen = true
    this.#latencies = []
    const before = cpuNanoseconds(this.#pid)
    const over = new Promise<void>((resolve) => {
      this.#end = resolve
    })
    setTimeout(() => {
      this.#isOpen = false
    }, sliceMs)
    for (const connection of this.#idle.splice(0)) this.#send(connection)
    await over
    if (this.#failed !== undefined) throw new Error(this.#failed)
    return { nanoseconds: cpuNanoseconds(this.#pid) - before, latencies: this.#latencies }
  }

  close(): void {
    for (const { socket } of this.#idle) socket.destroy()
  }

  #send(connection: Connection): void {
    const { path, body, method = body === undefined ? 'GET' : 'POST' } = this.#asking.next()
    const head = `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${benchKey}\r\n`
    const length = body === undefined ? 0 : Buffer.byteLength(body)
    const entity = body === undefined ? '' : `content-type: application/json\r\ncontent-length: ${length}\r\n`
    connection.sentAt = performance.now()
    connection.socket.write(`${head}${entity}\r\n${body ?? ''}`)
  }

  async #connected(): Promise<Connection> {
    const socket = connect(this.#port, '127.0.0.1')
    socket.setNoDelay(true).setEncoding('latin1')
    const connection = { socket, sentAt: 0 }
    let head = ''
    let left: number | undefined
    let tail = ''
    socket.on('data', (piece: string) => {
      if (left === undefined) {
        head += piece
        const end = head.indexOf('\r\n\r\n')
        if (end === -1) return
        const length = /content-length: (\d+)/i.exec(head.slice(0, end))?.[1]
        if (!/^HTTP\/1\.1 2/.test(head)) this.#failed ??= head
        left = length === undefined ? Number.POSITIVE_INFINITY : Number(length)
        left -= head.length - end - 4
        tail = head.slice(-5)
      } else {
        left -= piece.length
        tail = (tail + piece).slice(-5)
      }
      if (left > 0 && (Number.isFinite(left) || tail !== '0\r\n\r\n')) return
      head = ''
      left = undefined
      this.#next(connection)
    })
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return connection
  }

  #next(connection: Connection): void {
    this.#latencies.push(performance.now() - connection.sentAt)
    if (this.#isOpen) this.#send(connection)
    else if (this.#idle.push(connection) === this.#connections) this.#end?.()
  }
}

/** The CPU nanoseconds so far of all threads that a process has now. Threads that have ended do not count. */
function cpuNanoseconds(pid: number): number {
  const folder = `/proc/${pid}/task`
  return readdirSync(folder).reduce(
    (sum, thread) => sum + Number(readFileSync(`${folder}/${thread}/schedstat`, 'utf8').split(' ')[0]),
    0,
  )
}

/** What a request costs a service. */
export interface Cost {
  readonly cpuMicroseconds: number
  readonly p99Milliseconds: number
}

/** The costs of a request in both services, from one pair of measurements. */
export interface Pair {
  readonly here: Cost
  readonly other: Cost
}

/** Warms both services up, and measures this number of pairs. The caller closes both. */
export async function pairsOf(here: Caller, other: Caller, pairs: number): Promise<readonly Pair[]> {
  for (const caller of [here, other]) await caller.open()
  for (let warmUp = 0; warmUp < warmUps; warmUp++) await pairOf(here, other)
  const found: Pair[] = []
  while (found.length < pairs) found.push(await pairOf(here, other))
  return found
}

async function pairOf(here: Caller, other: Caller): Promise<Pair> {
  const callers = { here, other }
  const sums = { here: newSum(), other: newSum() }
  const order = ['here', 'other'] as const
  for (let slice = 0; slice < slicesOfPair; slice++) {
    // The order alternates, because the first service finds the caches of the CPU as other programs have left them.
    for (const name of slice % 2 === 0 ? order : order.toReversed()) {
      const { nanoseconds, latencies } = await callers[name].slice()
      sums[name].nanoseconds += nanoseconds
      sums[name].latencies.push(...latencies)
    }
  }
  const costOf = ({ nanoseconds, latencies }: typeof sums.here): Cost => ({
    cpuMicroseconds: nanoseconds / latencies.length / 1000,
    p99Milliseconds: percentile(latencies, 99),
  })
  return { here: costOf(sums.here), other: costOf(sums.other) }
}

const newSum = (): { nanoseconds: number; readonly latencies: number[] } => ({ nanoseconds: 0, latencies: [] })
