import { computed, effect, signal } from '@preact/signals'
import { ask, getJson, unreachable } from '../base/api.ts'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'
import { type Plant, type SentPlant, searchable, toPlant, withPlant } from './plant.ts'

/** How many plants one request asks for. */
const pageSize = 1000

/** How many plants the page holds at most: a list of more would be higher than browsers can show. */
const mostPlants = 250_000

/** The longest pause that loading all of them makes by itself, seconds. */
const longestPause = 120

/** The plants that are loaded, as the service orders them. */
export const plants = signal<readonly Plant[]>([])

/** Only plants with this tag are asked for; empty for all. */
export const tag = signal('')

/** What stands in the field for it, which may be typed still. */
export const typedTag = signal('')

/** Only plants whose names have this are shown. */
export const needle = signal('')

/** Where to go on; null at the end, and undefined before the first page. */
const next = signal<string | null | undefined>(undefined)

/** What is being loaded: one page, or all there are. */
export const loading = signal<'nothing' | 'page' | 'all'>('nothing')

/** Why loading has stopped. */
export const failure = signal<Failure | undefined>(undefined)

/** Seconds that the service wants to be left alone for, while all are loaded; 0 when it does not. */
export const pause = signal(0)

/** How many plants the account has of its own, as far as the service counts them. */
export const own = signal<number | undefined>(undefined)

/** The plants that are shown. */
export const found = computed(() => {
  const wanted = searchable(needle.value.trim())
  return wanted === '' ? plants.value : plants.value.filter(({ searched }) => searched.includes(wanted))
})

/** How many tags are known at most. */
const mostTags = 200

/** Tags of plants that were loaded, to choose from; they outlive a filter. */
export const tags = signal<readonly string[]>([])

/** Whether a page has been loaded. */
export const isLoaded = computed(() => next.value !== undefined)

/** Whether there are more plants than those that are loaded. */
export const hasMore = computed(() => next.value !== null)

/** Whether the page holds as many as it can. */
export const isFull = computed(() => plants.value.length >= mostPlants)

/** What was done last, in a line above the list: a notice at the bottom would hide the newest plants. */
export const said = signal('')

let running: AbortController | undefined

/** Ids of plants that were deleted while a page was on its way, which may have them still. */
const deleted = new Set<number>()

/** Plants that were added after the page that would have them was on its way, or before it was asked for. */
let added: readonly Plant[] = []

// The next to sign in in this tab may be somebody else.
effect(() => {
  if (identity.value === null) forget()
})

function forget(): void {
  stop()
  plants.value = []
  next.value = undefined
  tag.value = ''
  typedTag.value = ''
  needle.value = ''
  own.value = undefined
  tags.value = []
  said.value = ''
}

/** Loads the list from its begin. @param wanted only plants with this tag; empty for all */
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

/** Loads the next page, or all that are left. */
export function load(what: 'page' | 'all'): void {
  if (!hasMore.value || isFull.value) return
  if (what === 'all' || loading.value === 'nothing') loading.value = what
  if (!running) void loadPages()
}

/** Ends the loading; what is here stays. */
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
  for (const { tag: each } of page) if (each !== undefined && known.size < mostTags) known.add(each)
  if (known.size > tags.value.length) tags.value = [...known].toSorted()
}

/** Waits as long as the service wants it, while all plants are loaded. @throws what is no reason to wait */
async function waitFor(error: unknown, signal: AbortSignal): Promise<void> {
  const { status, retryAfter } = Failure.of(error)
  if (loading.value !== 'all' || status !== 429 || retryAfter === undefined || retryAfter > longestPause) throw error
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

/** The cursor in a header such as `</plants?limit=1000&after=…>; rel="next"`; null without one. */
function cursorOf(link: string | null): string | null {
  const [, address] = /<([^>]*)>\s*;\s*rel="next"/.exec(link ?? '') ?? []
  return address === undefined ? null : new URL(address, document.baseURI).searchParams.get('after')
}

interface SentLimits {
  readonly data: readonly { readonly limit: string; readonly of: string; readonly used: number | null }[]
}

/** Asks how many there are, which is told beside how many are loaded. Nothing hangs on it: a failure is not told. */
async function countOwn(): Promise<void> {
  own.value = undefined
  const { data } = await getJson<SentLimits>('limits').catch(() => ({ data: [] }))
  own.value = data.find(({ limit, of }) => limit === 'plants' && of === 'account')?.used ?? undefined
}

/**
 * Puts a plant into the list that was just added.
 * @returns it, where it is in the list now; undefined where its place is not loaded, or the list is of another tag
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

/** Takes a plant out of the list that was just deleted. */
export function remove(id: number): void {
  own.value = own.value === undefined ? undefined : own.value - 1
  deleted.add(id)
  added = added.filter((plant) => plant.id !== id)
  plants.value = plants.value.filter((plant) => plant.id !== id)
}
