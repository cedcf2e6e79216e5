import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { projectFolder } from '../process.ts'
import type { Order, Seen, Sights } from './bystanders.ts'

/** Percentiles of the latencies of a kind of bystander in milliseconds, the number of latencies, and that of missing replies. */
export interface Waits {
  readonly p50: number
  readonly p99: number
  readonly p999: number
  readonly count: number
  readonly refused: number
}

export type Kind = keyof Sights
export type Watched = Readonly<Record<Kind, Waits>>

/** Runs the bystanders, who use one service at a time. */
export class Watch {
  readonly #process: ChildProcess
  /** The port of the upstream of the bystanders' chats. */
  readonly port: number

  private constructor(process: ChildProcess, port: number) {
    this.#process = process
    this.port = port
  }

  /** Starts the process of the bystanders. The caller closes it. */
  static async start(): Promise<Watch> {
    const process_ = spawn(process.execPath, [join(projectFolder, 'test/support/hostile/bystanders.ts')], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const [{ port }] = (await once(process_, 'message')) as [{ port: number }]
    return new Watch(process_, port)
  }

  /** Lets the bystanders send requests to a service. @param largeKey the key for chats of 1 MB; without it there are none */
  begin(url: string, key: string, largeKey?: string): void {
    this.#order({ url, key, largeKey })
  }

  async end(): Promise<Watched> {
    const told = once(this.#process, 'message') as Promise<[Sights]>
    this.#order('end')
    const [{ livez, plant, chat, large }] = await told
    return { livez: waitsOf(livez), plant: waitsOf(plant), chat: waitsOf(chat), large: waitsOf(large) }
  }

  close(): void {
    this.#process.disconnect()
  }

  #order(order: Order): void {
    this.#process.send(order)
  }
}

function waitsOf({ waits, refused }: Seen): Waits {
  const sorted = waits.toSorted((a, b) => a - b)
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), count: sorted.length, refused }
}
