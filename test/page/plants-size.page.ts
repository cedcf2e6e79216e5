import { it } from 'vitest'
import { hasShortTasks } from '../support/page/main-thread.ts'
import { browserForThisFile, phone } from '../support/page/page-browser.ts'
import { plantInBulk } from '../support/page/plants.ts'
import { serviceForThisTest } from '../support/service.ts'

const pageBrowser = browserForThisFile()

/** The number of plants that the page must hold without a delay that a reader notices. */
const count = 100_000

it(`${count} plants on a slow phone cause no task of over 200 ms`, { timeout: 300_000 }, async () => {
  const service = await serviceForThisTest()
  await plantInBulk(service, count, (id) => ({
    name: `Plant ${id} of the glasshouse ${id % 97}`,
    tag: `tag ${id % 50}`,
  }))
  const page = await pageBrowser.openPage(service, { viewport: phone, hasTouch: true })
  const measure = (what: string, work: () => Promise<unknown>) => hasShortTasks(page, what, work)
  const grid = page.getByRole('grid')
  const all = page.getByText('100,000 plants in all.')
  const search = page.getByRole('searchbox', { name: 'Search by name' })

  await measure('the first page', async () => {
    await page.getByRole('link', { name: 'Plants' }).click()
    await page.getByText(/1,000 .*loaded/).waitFor()
  })
  await measure('loading all', async () => {
    await page.getByRole('button', { name: 'Load all' }).click()
    await all.waitFor({ timeout: 240_000 })
  })
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
})
