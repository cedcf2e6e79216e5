import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { browserForThisFile, phone } from '../support/page/page-browser.ts'
import { plantInBulk } from '../support/page/plants.ts'
import { serviceForThisTest } from '../support/service.ts'

const pageBrowser = browserForThisFile()

/** The number of plants that the page must hold without a delay that a reader notices. */
const count = 100_000

/** The maximum time of a task of the main thread in milliseconds, on a CPU that is slowed down four times. */
const longestTask = 200

interface TraceEvent {
  readonly name: string
  readonly pid: number
  readonly tid: number
  /** CPU time of the thread in microseconds; other programs of the machine do not count. */
  readonly tdur?: number
  readonly args: { readonly name?: string }
}

/**
 * The CPU time of the longest task of the pages' main threads during some work, in milliseconds, and the number of tasks over
 * 50 ms.
 */
async function tasksDuring(page: Page, work: () => Promise<unknown>): Promise<{ longest: number; long: number }> {
  const browser = page.context().browser()
  if (!browser) throw new Error('The page has no browser.')
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] })
  await work()
  // After two frames the result of the work is drawn.
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
  const trace: { readonly traceEvents: readonly TraceEvent[] } = JSON.parse(String(await browser.stopTracing()))
  const threadOf = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`
  const mains = new Set(trace.traceEvents.filter(({ args }) => args.name === 'CrRendererMain').map(threadOf))
  const tasks = trace.traceEvents
    .filter((event) => event.name === 'ThreadControllerImpl::RunTask' && mains.has(threadOf(event)))
    .map(({ tdur = 0 }) => Math.round(tdur / 1000))
  expect(tasks.length).toBeGreaterThan(0)
  return { longest: Math.max(...tasks), long: tasks.filter((each) => each > 50).length }
}

it(`${count} plants on a slow phone cause no task of over ${longestTask} ms`, { timeout: 300_000 }, async () => {
  const service = await serviceForThisTest()
  await plantInBulk(service, count, (id) => ({
    name: `Plant ${id} of the glasshouse ${id % 97}`,
    tag: `tag ${id % 50}`,
  }))
  const page = await pageBrowser.openPage(service, { viewport: phone, hasTouch: true })
  const session = await page.context().newCDPSession(page)
  await session.send('Emulation.setCPUThrottlingRate', { rate: 4 })
  const figures: Record<string, { readonly longest: number; readonly long: number }> = {}
  const measure = async (what: string, work: () => Promise<unknown>) => {
    figures[what] = await tasksDuring(page, work)
  }
  const grid = page.getByRole('grid')
  const all = page.getByText('100,000 plants in all.')
  const search = page.getByRole('searchbox', { name: 'Search by name' })

  await measure('the first page', async () => {
    await page.getByRole('link', { name: 'Plants' }).click()
    await page.getByText(/1,000 .*loaded/).waitFor()
  })
  const before = performance.now()
  await measure('loading all', async () => {
    await page.getByRole('button', { name: 'Load all' }).click()
    await all.waitFor({ timeout: 240_000 })
  })
  const seconds = ((performance.now() - before) / 1000).toFixed(1)
  await measure('scrolling', async () => {
    for (let step = 1; step <= 20; step++) {
      await grid.evaluate((element, part) => element.scrollTo(0, element.scrollHeight * part), step / 20)
    }
    await page.getByRole('row', { name: 'Plant 100000 ' }).waitFor()
  })
  await measure('searching', async () => {
    await search.focus()
    await page.keyboard.type('glasshouse 96')
    await page.getByText('1,030 of them shown').waitFor()
    for (let letter = 0; letter < 13; letter++) await page.keyboard.press('Backspace')
    await all.waitFor()
  })
  await measure('adding', async () => {
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('The newest')
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: 'The newest' }).waitFor()
  })
  await measure('deleting', async () => {
    await page.getByRole('button', { name: 'Delete The newest' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click()
    await all.waitFor()
  })
  await measure('leaving and coming back', async () => {
    await page.getByRole('link', { name: 'Account' }).click()
    await page.getByRole('meter').first().waitFor()
    await page.getByRole('link', { name: 'Plants' }).click()
    await all.waitFor()
  })
  console.info(
    `100,000 plants, loaded in ${seconds} s; tasks of the main thread, ms on the processor slowed four times:`,
    figures,
  )
  for (const [what, { longest }] of Object.entries(figures))
    expect([what, longest <= longestTask]).toEqual([what, true])
})
