import { getJson } from '../base/api.ts'
import { identity } from '../base/session.ts'
import { type LedgerRecord, recordOf } from '../ui/requests.ts'
import { type ListAnswer, PagedList } from './paged-list.ts'
import { localMidnight } from './period.ts'

const none = { from: '', to: '', model: '', state: '', account: '' }

/** The list of requests, the newest first. */
export const requests = new PagedList<typeof none, LedgerRecord>('requests', none, ({ from, to, model, state }) => {
  const days = [localMidnight(from), localMidnight(to, 1)]
  const [first, last] = days.map((moment) => (moment === undefined ? undefined : momentOf(moment)))
  return { from: first, to: last, model, state }
})

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
  const { data } = await getJson<ListAnswer<LedgerRecord>>(`requests?${query}`, asking)
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
