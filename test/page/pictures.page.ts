import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { barriersOf, browserForThisFile, desktop, phone } from '../support/page/page-browser.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'

/*
 * Opens each view, on a phone and on a wide screen, light and dark, and checks that it has no barriers.
 * `PICTURES=docs/pictures npm run test:page -- pictures` also saves the screenshots for docs/page.md and the README.
 */

const pageBrowser = browserForThisFile()
const folder = process.env['PICTURES']

/** Opens each view, and waits until it is ready for its screenshot. */
const views: Readonly<Record<string, (page: Page, url: string) => Promise<void>>> = {
  characters: async (page, url) => {
    await page.goto(`${url}/#/characters`)
    await page.getByText('Captain Vesper').first().waitFor()
  },
  chat: async (page, url) => {
    await page.goto(`${url}/#/chat/Fern`)
    const box = page.getByLabel('Message to Fern')
    for (const question of ['Why are my leaves turning yellow?', 'And how often should I water it?']) {
      await box.fill(question)
      await box.press('Enter')
      await page.getByRole('button', { name: 'Regenerate' }).last().waitFor()
    }
  },
  receipt: async (page) => {
    await page.getByRole('button', { name: 'What the model was told' }).last().click()
    await page.getByRole('dialog').getByText('tokens').first().waitFor()
  },
  plants: async (page, url) => {
    await page.goto(`${url}/#/plants`)
    await page.getByText('Calathea').first().waitFor()
  },
  limits: async (page, url) => {
    await page.goto(`${url}/#/account/limits`)
    await page.getByRole('meter').first().waitFor()
  },
  keys: async (page, url) => {
    await page.goto(`${url}/#/account/keys`)
    await page.getByText('tablet in the glasshouse').waitFor()
  },
  usage: async (page, url) => {
    await page.goto(`${url}/#/account/usage`)
    await page.getByRole('table').first().waitFor()
  },
  requests: async (page, url) => {
    await page.goto(`${url}/#/account/requests`)
    await page.getByText('understudy').last().waitFor()
  },
  audit: async (page, url) => {
    await page.goto(`${url}/#/account/audit`)
    await page.getByText('up to the newest').waitFor()
  },
}

/** A service with data for each view. */
async function furnished(): Promise<TestService> {
  const service = await serviceForThisTest({ LIMITS: 'tokens_per_day=50000,plants=100,requests_per_minute=600' })
  for (const [name, tag] of [
    ['Monstera', 'aroid'],
    ['Calathea', 'shade'],
    ['Sansevieria', 'hardy'],
    ['Philodendron', 'aroid'],
    ['Pilea'],
    ['Ficus', 'tree'],
  ]) {
    await service.request('/plants', { json: { name, ...(tag === undefined ? {} : { tag }) } })
  }
  await service.request('/keys', {
    json: { name: 'tablet in the glasshouse', scopes: ['plants:read', 'plants:write'] },
  })
  for (const character of ['Tolliver', 'Bolt', 'Captain Vesper']) {
    const messages = [{ role: 'user', content: 'Good morning! What is there to do today?' }]
    await service.request('/chat/completions', { json: { model: 'understudy', character, messages } })
  }
  return service
}

it.each(
  (['light', 'dark'] as const).flatMap((colorScheme) => [
    { colorScheme, size: 'desk', viewport: desktop },
    { colorScheme, size: 'phone', viewport: phone },
  ]),
)('each view is shown, and has no barriers: $size, $colorScheme', async ({ colorScheme, size, viewport }) => {
  const service = await furnished()
  const page = await pageBrowser.openPage(service, { colorScheme, viewport })
  for (const [name, open] of Object.entries(views)) {
    await open(page, service.url)
    if (folder !== undefined) {
      mkdirSync(folder, { recursive: true })
      const path = join(folder, `${name}-${size}-${colorScheme}.png`)
      await page.screenshot({ path })
    }
    expect([name, await barriersOf(page)]).toEqual([name, []])
    if (name === 'receipt') await page.keyboard.press('Escape')
  }
})
