import { computed, signal } from '@preact/signals'
import { ask, getJson, unreachable } from '../base/api.ts'
import { Failure } from '../base/failure.ts'
import { identity, ofAccount } from '../base/session.ts'
import { type Plant, type SentPlant, searchable, toPlant, withPlant } from './plant.ts'

const pageSize = 1000

/** The most loaded plants. A longer list would be higher than browsers can show. */
const maxPlants = 250_000

/** The longest `retry-after` for which “Load all” waits. A longer one stops “Load all”. */
const maxPauseSeconds = 120

/** The loaded plants in the order of the service. */
export const plants = ofAccount<readonly Plant[]>([])

/** Only plants with this tag are loaded; all plants if the tag is empty. */
export const tag = ofAccount('')

/** The text in the field for the tag. */
export const typedTag = ofAccount('')

/** Only plants with this text in their names are shown. */
export const needle = ofAccount('')

/** The cursor of the next page. Null after the last page, and undefined before the first page. */
const next = ofAccount<string | null | undefined>(undefined)

/** What is being loaded: nothing, one page, or all plants. */
export const loading = signal<'nothing' | 'page' | 'all'>('nothing')

/** The reason why loading has stopped. */
export const failure = signal<Failure | undefined>(undefined)

/** The seconds for which “Load all” waits because of a `retry-after`. 0 if “Load all” does not wait. */
export const pause = signal(0)

/** The number of plants of the account, if the service counts them. */
export const own = ofAccount<number | undefined>(undefined)

/** The plants that are shown. */
export const found = computed(() => {
  const wanted = searchable(needle.value.trim())
  return wanted === '' ? plants.value : plants.value.filter(({ searched }) => searched.includes(wanted))
})

const maxTags = 200

/** Tags of loaded plants, as suggestions. They stay when the filter changes. */
export const tags = ofAccount<readonly string[]>([])

/** Whether a page has been loaded. */
export const isLoaded = computed(() => next.value !== undefined)

/** Whether there are more plants than the loaded plants. */
export const hasMore = computed(() => next.value !== null)

/** Whether the maximum of plants is loaded. */
export const isFull = computed(() => plants.value.length >= maxPlants)

/** A sentence about the last action. It is shown above the list, because a notice at the bottom would hide the newest plants. */
export const said = ofAccount('')

let running: AbortController | undefined

/** Ids of deleted plants. A page that was requested before the deletion may still have them. */
const deleted = new Set<number>()

/** Added plants that the list does not have yet, because their page is not loaded. */
let added: readonly Plant[] = []

identity.subscribe((who) => {
  if (who === null) stop()
})

/** Loads the list from its beginning. @param wanted the tag of the plants; all plants if it is empty */
export function reload(wanted = tag.value): void {
  stop()
  tag.value = wanted
  typedTag.value = wanted
  plants.value = []
  next.value = undefined
  deleted.clear()
  added = []
  load('page')
  void countOwn()
}

/** Loads the next page, or all remaining pages. */
export function load(what: 'page' | 'all'): void {
  if (!hasMore.value || isFull.value) return
  if (what === 'all' || loading.value === 'nothing') loading.value = what
  if (!running) void loadPages()
}

/** Stops loading. The loaded plants stay. */
export function stop(): void {
  running?.abort()
  running = undefined
  loading.value = 'nothing'
  pause.value = 0
  failure.value = undefined
}

async function loadPages(): Promise<void> {
  const control = new AbortController()
  running = control
  failure.value = undefined
  try {
    do await loadPage(control.signal).catch((error: unknown) => waitFor(error, control.signal))
    while (loading.value === 'all' && hasMore.value && !isFull.value)
  } catch (error) {
    if (running === control) failure.value = Failure.of(error)
  } finally {
    if (running === control) {
      running = undefined
      loading.value = 'nothing'
      pause.value = 0
    }
  }
}

async function loadPage(signal: AbortSignal): Promise<void> {
  const query = new URLSearchParams({ limit: String(pageSize), include: 'id' })
  if (tag.value !== '') query.set('tag', tag.value)
  if (next.value) query.set('after', next.value)
  const reply = await ask(`plants?${query}`, { signal })
  const page: readonly SentPlant[] = await reply.json().catch((error: unknown) => {
    throw signal.aborted ? Failure.of(error) : unreachable()
  })
  if (signal.aborted) return
  next.value = cursorOf(reply.headers.get('link'))
  plants.value = [...plants.value, ...page.filter(({ id }) => id === undefined || !deleted.has(id)).map(toPlant)]
  for (const plant of added) show(plant)
  learnTags(page)
}

function learnTags(page: readonly SentPlant[]): void {
  const known = new Set(tags.value)
  for (const { tag: each } of page) if (each !== undefined && known.size < maxTags) known.add(each)
  if (known.size > tags.value.length) tags.value = [...known].toSorted()
}

/**
 * While “Load all” runs, waits for the `retry-after` of a 429.
 * @throws the error if “Load all” does not run, if the error is not a 429, or if the `retry-after` is too long
 */
async function waitFor(error: unknown, signal: AbortSignal): Promise<void> {
  const { status, retryAfter } = Failure.of(error)
  if (loading.value !== 'all' || status !== 429 || retryAfter === undefined || retryAfter > maxPauseSeconds) throw error
  pause.value = retryAfter
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, retryAfter * 1000)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  signal.throwIfAborted()
  pause.value = 0
}

/** The cursor of a header such as `</plants?limit=1000&after=…>; rel="next"`; null if there is no next page. */
function cursorOf(link: string | null): string | null {
  const [, address] = /<([^>]*)>\s*;\s*rel="next"/.exec(link ?? '') ?? []
  return address === undefined ? null : new URL(address, document.baseURI).searchParams.get('after')
}

interface SentLimits {
  readonly data: readonly { readonly limit: string; readonly of: string; readonly used: number | null }[]
}

/** Loads the number of the account's plants, to show it beside the number of loaded plants. A failure is ignored. */
async function countOwn(): Promise<void> {
  own.value = undefined
  const { data } = await getJson<SentLimits>('limits').catch(() => ({ data: [] }))
  own.value = data.find(({ limit, of }) => limit === 'plants' && of === 'account')?.used ?? undefined
}

/**
 * Adds a new plant to the list.
 * @returns the plant if the list now has it. Undefined if the plant's place in the list is not loaded, or if the list has another
 * tag
 */
export function add(sent: SentPlant): Plant | undefined {
  own.value = own.value === undefined ? undefined : own.value + 1
  if (!isLoaded.value || (tag.value !== '' && tag.value !== sent.tag)) return undefined
  const plant = toPlant(sent)
  learnTags([sent])
  added = [...added, plant]
  show(plant)
  return plants.value.find(({ id }) => id === sent.id)
}

function show(plant: Plant): void {
  const more = withPlant(plants.value, plant, !hasMore.value)
  if (!more) return
  plants.value = more
  added = added.filter(({ key }) => key !== plant.key)
}

/** Removes a deleted plant from the list. */
export function remove(id: number): void {
  own.value = own.value === undefined ? undefined : own.value - 1
  deleted.add(id)
  added = added.filter((plant) => plant.id !== id)
  plants.value = plants.value.filter((plant) => plant.id !== id)
}
