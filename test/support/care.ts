import { afterAll, beforeAll, vi } from 'vitest'
import { type Caller, newCaller, plantInBulk, type Row } from './plant-callers.ts'

/** The clock of the tests of care, in Unix seconds: noon of 29 November 2026 in UTC. */
export const now = Date.parse('2026-11-29T12:00:00Z') / 1000
export const day = 86_400

/** Stops the clock of the service at `now` for all tests of the calling file. Call it before the service starts. */
export function clockForThisFile(): void {
  beforeAll(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: now * 1000 })
  })
  afterAll(() => {
    vi.useRealTimers()
  })
}

/** Sets the clock to a number of days after `now`. */
export function advanceTo(days: number): void {
  vi.setSystemTime((now + days * day) * 1000)
}

/** Sends a request. @returns the status, the parsed body and the headers of the reply */
export async function ask(caller: Caller, path: string, method = 'GET', json?: unknown, headers = {}) {
  const response = await caller.send(path, { method, headers, ...(json === undefined ? {} : { json }) })
  const text = await response.text()
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text), headers: response.headers }
}

/** A new caller with these plants, by default one with the id 7. The clock is at `now`. */
export async function keeper(plants: readonly Row[] = [{ id: 7, name: 'Monstera', tag: 'aroid' }]): Promise<Caller> {
  advanceTo(0)
  const caller = await newCaller()
  await plantInBulk(caller, plants)
  return caller
}

/** The address of the next page. */
export function nextOf({ headers }: { readonly headers: Headers }): string {
  return /^<([^<>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1] ?? ''
}
