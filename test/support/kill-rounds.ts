import { join } from 'node:path'
import Database from 'better-sqlite3'

/*
 * Repeated kill -9 under writers over one database. A test and a benchmark share this file, so that it must not
 * import vitest.
 */

/** A service that can be killed; its key must have the scopes to read and write plants. */
export interface Killable {
  readonly url: string
  /** Ends the process with SIGKILL, and waits until it is gone. */
  kill(): Promise<void>
}

export interface KillPlan {
  readonly rounds: number
  /** Clients that write at once. Every second one sends an Idempotency-Key, and sends again what a kill cut off. */
  readonly writers: number
  readonly key: string
  /** Starts a service over the same database. */
  start(): Promise<Killable>
}

/** The plants after the last kill, compared with the acknowledged ones. */
export interface KillResult {
  readonly acknowledged: number
  /** Requests that a kill cut off and that were sent again with their Idempotency-Key. */
  readonly sentAgain: number
  /** Acknowledged names that are missing. */
  readonly lost: readonly string[]
  /** Names that exist more than once. */
  readonly doubled: readonly string[]
}

/**
 * Writes from many clients, kills the service after a random number of acknowledged writes, restarts it, and repeats; then
 * lists all plants.
 * @throws Error when a write is answered with anything but 200
 */
export async function killRounds({ rounds, writers, key, start }: KillPlan): Promise<KillResult> {
  const acknowledged = new Set<string>()
  const cutOff = new Map<number, string>()
  let sentAgain = 0
  let onAcknowledged = () => {}

  const add = async (url: string, name: string, isKeyed: boolean): Promise<boolean> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const answer = await fetch(`${url}/plants`, {
      method: 'POST',
      headers: isKeyed ? { ...headers, 'idempotency-key': name } : headers,
      body: JSON.stringify({ name }),
    }).catch(() => undefined)
    if (answer && answer.status !== 200) throw new Error(`A write was answered with ${answer.status}.`)
    if (answer) {
      acknowledged.add(name)
      onAcknowledged()
    }
    return answer !== undefined
  }
  const sendAgain = async (url: string, writer: number): Promise<void> => {
    const name = cutOff.get(writer)
    if (name === undefined || !(await add(url, name, true))) return
    cutOff.delete(writer)
    sentAgain++
  }
  const write = async (url: string, round: number, writer: number): Promise<void> => {
    const isKeyed = writer % 2 === 1
    await sendAgain(url, writer)
    if (cutOff.has(writer)) return
    for (let count = 0; ; count++) {
      const name = `${round}-${writer}-${count}`
      if (await add(url, name, isKeyed)) continue
      if (isKeyed) cutOff.set(writer, name)
      return
    }
  }

  /** Resolves after a random number of further writes: enough for every client to be busy, and at most some hundred. */
  const manyMore = () => {
    const enough = acknowledged.size + writers + Math.random() * 500
    return new Promise<void>((resolve) => {
      onAcknowledged = () => {
        if (acknowledged.size >= enough) resolve()
      }
    })
  }

  const everyWriter = Array.from({ length: writers }, (_, writer) => writer)
  for (let round = 0; round < rounds; round++) {
    const service = await start()
    const writing = Promise.all(everyWriter.map((writer) => write(service.url, round, writer)))
    await Promise.race([manyMore(), writing])
    await service.kill()
    await writing
  }
  const last = await start()
  await Promise.all(everyWriter.map((writer) => sendAgain(last.url, writer)))
  const answer = await fetch(`${last.url}/plants`, { headers: { authorization: `Bearer ${key}` } })
  const plants: readonly { readonly name: string }[] = JSON.parse(await answer.text())
  await last.kill()
  const counts = new Map<string, number>()
  for (const { name } of plants) counts.set(name, (counts.get(name) ?? 0) + 1)
  return {
    acknowledged: acknowledged.size,
    sentAgain,
    lost: [...acknowledged].filter((name) => !counts.has(name)),
    doubled: [...counts].filter(([, count]) => count > 1).map(([name]) => name),
  }
}

/** The result of SQLite's `integrity_check` for the database of a data folder; `ok` for a good one. */
export function integrityOf(folder: string): unknown {
  const database = new Database(join(folder, 'conservatory.db'))
  try {
    return database.pragma('integrity_check', { simple: true })
  } finally {
    database.close()
  }
}
