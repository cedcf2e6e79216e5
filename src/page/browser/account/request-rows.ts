import { getJson } from '../base/api.ts'
import { type LedgerRecord, recordOf } from '../base/ledger-record.ts'
import { identity } from '../base/session.ts'
import { LatestRequest } from './latest-request.ts'
import { localMidnight } from './period.ts'

/** The filter of the list. An empty field filters nothing. Days are in the reader's time zone. */
export interface RequestFilter {
  readonly from: string
  readonly to: string
  readonly model: string
  readonly state: string
  readonly account: string
}

/** The listed requests by page, the newest first. */
export interface RequestList {
  readonly filter: RequestFilter
  readonly pages: readonly (readonly LedgerRecord[])[]
  readonly hasMore: boolean
}

interface RequestsAnswer {
  readonly data: readonly LedgerRecord[]
  readonly has_more: boolean
}

const pageLength = 50

/** The list of requests. */
export const requests = new LatestRequest<RequestList>()

/** Lists the newest requests that match a filter. */
export function listRequests(filter: RequestFilter): Promise<void> {
  return requests.ask(async (signal) => {
    const { data, has_more } = await getJson<RequestsAnswer>(`requests?${queryOf(filter)}`, { signal })
    return { filter, pages: [data], hasMore: has_more }
  })
}

/** Adds the next page of older requests to the list. */
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
export function listed(id: string): LedgerRecord | undefined {
  return requests.answer.value?.pages.flat().find((row) => row.id === id)
}

/**
 * Loads a request again, and updates its row in the list.
 * @returns undefined if the request belongs to another account and no longer exists
 * @throws Failure if the reply is not a success or does not come, also if a request of this account does not exist
 */
export async function askRequest(id: string, signal?: AbortSignal): Promise<LedgerRecord | undefined> {
  const known = listed(id)
  const account = requests.answer.value?.filter.account.trim() ?? ''
  const asking = signal ? { signal } : {}
  // `GET /requests/{id}` works only for the account of the key. A request of another account is found by the second of its
  // creation.
  const isOthers = known !== undefined && account !== '' && account !== identity.value?.account
  const row = isOthers ? await askOthers(known, account, asking) : await recordOf(id, signal)
  if (row) replace(row)
  return row
}

async function askOthers(
  { id, created }: LedgerRecord,
  account: string,
  asking: { readonly signal?: AbortSignal },
): Promise<LedgerRecord | undefined> {
  const query = new URLSearchParams({ account, from: momentOf(created), to: momentOf(created + 1), limit: '1000' })
  const { data } = await getJson<RequestsAnswer>(`requests?${query}`, asking)
  return data.find((row) => row.id === id)
}

function replace(row: LedgerRecord): void {
  const { answer } = requests
  if (!answer.value) return
  // The other pages stay the same objects, so that they are not rendered again.
  const pages = answer.value.pages.map((page) =>
    page.some(({ id }) => id === row.id) ? page.map((each) => (each.id === row.id ? row : each)) : page,
  )
  answer.value = { ...answer.value, pages }
}
