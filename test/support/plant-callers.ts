import { afterAll, beforeAll, expect } from 'vitest'
import type { Scope } from '../../src/access/access.ts'
import type { Plant } from '../../src/plants/schemas.ts'
import { type RequestOptions, startTestService, type TestService } from './service.ts'
import { openSql, type TestSql } from './test-sql.ts'

/** The highest id that a plant can have. */
export const highest = Number.MAX_SAFE_INTEGER
/** A character outside of the basic plane: two UTF-16 code units, four bytes of UTF-8. */
export const cactus = '🌵'

/** The service of the running test file. */
export let service: TestService
/** Plain SQL on the service's database, to add plants in bulk and to read rows. */
export let sql: TestSql

/** Starts a service for all tests of the calling file, and stops it at the end of the file. */
export function plantServiceForThisFile(): void {
  beforeAll(async () => {
    service = await startTestService()
    sql = await openSql(service.dataDirectory)
  })

  afterAll(async () => {
    await sql.close()
    await service.close()
  })
}

/** A caller of `/plants` with their own account. */
export interface Caller {
  readonly account: number
  readonly key: string
  send(path: string, options?: RequestOptions): Promise<Response>
  /** Sends this JSON text to `POST /plants`. */
  post(text: string): Promise<Response>
  /** The names in `GET /plants`, in its order. */
  names(query?: string): Promise<readonly string[]>
}

/** A plant to add to the database. */
export interface Row {
  readonly id: number
  readonly name: string
  readonly tag?: string
}

/** The number of callers so far. The account of the last caller has this number in its name. */
export let callers = 0

/** A new caller with an empty account. */
export async function newCaller(scopes?: readonly Scope[]): Promise<Caller> {
  const account = `account ${++callers}`
  const key = await service.makeKey(account, scopes)
  const send = (path: string, options: RequestOptions = {}) =>
    service.request(path, { ...options, headers: { authorization: `Bearer ${key}`, ...options.headers } })
  const [row] = await sql.run<{ readonly id: number }>('SELECT id FROM accounts WHERE name = ?', account)
  return {
    account: row?.id ?? 0,
    key,
    send,
    post: (text) => send('/plants', { body: text }),
    async names(query = '') {
      const plants = await readPlants(await send(`/plants${query}`))
      return plants.map(({ name }) => name)
    },
  }
}

/** Adds plants to a caller's account directly in the database. */
export function plantInBulk({ account }: Caller, rows: readonly Row[]): Promise<void> {
  return sql.insert(
    'plants',
    rows.map(({ id, name, tag = null }) => ({ account, id, name, tag })),
  )
}

/** The URL of the next page, or undefined. Checks the exact form of the `Link` header. */
export function nextPage(response: Response): string | undefined {
  const link = response.headers.get('link')
  if (link === null) return undefined
  expect(link).toMatch(/^<\/plants\?[^<>]+>; rel="next"$/)
  return link.slice(1, link.indexOf('>'))
}

/** The plants of a page. */
export async function readPlants(response: Response): Promise<Plant[]> {
  return JSON.parse(await response.text())
}

/** Reads all pages from the first URL on. `between` runs after each page. */
export async function readPages(
  caller: Caller,
  first: string,
  between?: () => Promise<void>,
): Promise<readonly Plant[][]> {
  const pages: Plant[][] = []
  for (let path: string | undefined = first; path !== undefined; ) {
    const response = await caller.send(path)
    expect(response.status).toBe(200)
    pages.push(await readPlants(response))
    path = nextPage(response)
    await between?.()
  }
  return pages
}
