import { join } from 'node:path'
import Database from 'better-sqlite3'

/*
 * Kills a service with SIGKILL again and again while clients write; all services have the same database. A benchmark uses this
 * file too, so it must not import vitest.
 */

/** A service that can be killed. */
export interface Killable {
  readonly url: string
  /** Ends the process with SIGKILL, and waits until it is gone. */
  kill(): Promise<void>
}

export interface KillPlan {
  readonly rounds: number
  /** The number of parallel clients. Every second client sends an Idempotency-Key, and repeats a request that a kill cut off. */
  readonly writers: number
  /** A key with the scopes to read and write plants. */
  readonly key: string
  /** Starts a service over the same database. */
  start(): Promise<Killable>
}

/** The plants after the last kill, compared with the acknowledged plants. */
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
 * Lets many clients write, kills the service after a random number of acknowledged writes, and starts it again, for each round.
 * At the end it lists all plants.
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

  /** Resolves after a random number of further acknowledged writes, from `writers` to `writers` + 500. */
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

/** The result of SQLite's `integrity_check` for the database of a data folder: `ok` for a good database. */
export function integrityOf(folder: string): unknown {
  const database = new Database(join(folder, 'conservatory.db'))
  try {
    return database.pragma('integrity_check', { simple: true })
  } finally {
    database.close()
  }
}
