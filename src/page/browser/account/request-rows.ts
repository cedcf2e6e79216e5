import { getJson } from '../base/api.ts'
import { identity } from '../base/session.ts'
import { Asked } from './asked.ts'
import { localMidnight } from './period.ts'

/** A chat request, as `GET /requests` tells of it. */
export interface RequestRow {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  /** The prefix of its key. */
  readonly key: string
  /** As it was asked for. */
  readonly model: string
  readonly model_used: string | null
  readonly character: string | null
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly tokens_exact: boolean
  readonly first_token_ms: number | null
  readonly total_ms: number
  readonly retries: number
  readonly state: string
  readonly upstream_truncated: string | null
}

/** Which requests are listed; empty for all. Days are those of where the reader is. */
export interface RequestFilter {
  readonly from: string
  readonly to: string
  readonly model: string
  readonly state: string
  readonly account: string
}

/** The requests that are listed, the newest first, in the pages that they came in. */
export interface RequestList {
  readonly filter: RequestFilter
  readonly pages: readonly (readonly RequestRow[])[]
  readonly hasMore: boolean
}

interface RequestsAnswer {
  readonly data: readonly RequestRow[]
  readonly has_more: boolean
}

/** Requests that are asked for at once. */
const pageLength = 50

/** The list. */
export const requests = new Asked<RequestList>()

/** Lists the newest requests that pass a filter. */
export function listRequests(filter: RequestFilter): Promise<void> {
  return requests.ask(async (signal) => {
    const { data, has_more } = await getJson<RequestsAnswer>(`requests?${queryOf(filter)}`, { signal })
    return { filter, pages: [data], hasMore: has_more }
  })
}

/** Lists older ones below those that are listed. */
export function listMore({ filter, pages }: RequestList): Promise<void> {
  return requests.ask(async (signal) => {
    const query = queryOf(filter)
    query.set('after', pages.at(-1)?.at(-1)?.id ?? '')
    const { data, has_more } = await getJson<RequestsAnswer>(`requests?${query}`, { signal })
    return { filter, pages: [...pages, data], hasMore: has_more }
  })
}

function queryOf({ from, to, model, state, account }: RequestFilter): URLSearchParams {
  const query = new URLSearchParams({ limit: String(pageLength) })
  const moments = { from: localMidnight(from), to: localMidnight(to, 1) }
  for (const [name, moment] of Object.entries(moments)) {
    if (moment !== undefined) query.set(name, momentOf(moment))
  }
  for (const [name, value] of Object.entries({ model, state, account: account.trim() })) {
    if (value !== '') query.set(name, value)
  }
  return query
}

function momentOf(unixSeconds: number): string {
  return new Date(unixSeconds * 1000).toISOString()
}

/** The request with this id in the list. */
export function listed(id: string): RequestRow | undefined {
  return requests.answer.value?.pages.flat().find((row) => row.id === id)
}

/**
 * Asks for a request, and puts it into the list where it stands there.
 * @returns undefined where another account's is gone
 * @throws Failure as `ask`
 */
export async function askRequest(id: string, signal?: AbortSignal): Promise<RequestRow | undefined> {
  const known = listed(id)
  const account = requests.answer.value?.filter.account.trim() ?? ''
  const asking = signal ? { signal } : {}
  // The route of one request is for the account's own; another's is found by the second in which it came.
  const isOthers = known !== undefined && account !== '' && account !== identity.value?.account
  const row = isOthers
    ? await askOthers(known, account, asking)
    : await getJson<RequestRow>(`requests/${encodeURIComponent(id)}`, asking)
  if (row) replace(row)
  return row
}

async function askOthers(
  { id, created }: RequestRow,
  account: string,
  asking: { readonly signal?: AbortSignal },
): Promise<RequestRow | undefined> {
  const query = new URLSearchParams({ account, from: momentOf(created), to: momentOf(created + 1), limit: '1000' })
  const { data } = await getJson<RequestsAnswer>(`requests?${query}`, asking)
  return data.find((row) => row.id === id)
}

function replace(row: RequestRow): void {
  const { answer } = requests
  if (!answer.value) return
  // Other pages stay the same objects: they are not drawn again.
  const pages = answer.value.pages.map((page) =>
    page.some(({ id }) => id === row.id) ? page.map((each) => (each.id === row.id ? row : each)) : page,
  )
  answer.value = { ...answer.value, pages }
}
