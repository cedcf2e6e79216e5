import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { putIntoLedger } from '../support/ledger.ts'
import { barriersOf, browserForThisFile } from '../support/page/page-browser.ts'
import { pixelsBeyond, screens } from '../support/page/screens.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

/*
 * Opens each view and its dialogs, on a phone and on a wide screen, light and dark, and checks that they have no barriers and are
 * not wider than the screen.
 * `PICTURES=docs/pictures npm run test:page -- pictures` also saves the screenshots for docs/page.md and the README.
 */

const pageBrowser = browserForThisFile()
const folder = process.env['PICTURES']

/** Opens each view, and waits until it is ready for its screenshot. A name with a comma is a state that follows a view. */
const views: Readonly<Record<string, (page: Page, url: string) => Promise<void>>> = {
  characters: async (page, url) => {
    await page.goto(`${url}/#/characters`)
    await page.getByText('Captain Vesper').first().waitFor()
  },
  'characters, a card': async (page, url) => {
    await page.goto(`${url}/#/characters/Moss`)
    await page.getByText('Lore that never fires').waitFor()
  },
  'characters, deletion': async (page) => {
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').waitFor()
  },
  'characters, import': async (page, url) => {
    await page.goto(`${url}/#/characters//import`)
    await page.getByLabel('Card files').setInputFiles(
      [JSON.stringify(mossCard({ x: 1 })), JSON.stringify(mossCard({ name: 'New' })), 'none'].map((text, index) => ({
        ...{ name: `${index}.json`, mimeType: '', buffer: Buffer.from(text) },
      })),
    )
    await page.getByRole('article', { name: '2.json' }).getByRole('alert').waitFor()
    await page.getByRole('article', { name: '1.json' }).getByRole('button', { name: 'Under another name' }).click()
    await page.evaluate(`{
      const dataTransfer = new DataTransfer()
      dataTransfer.items.add(new File(['x'], 'moss.json'))
      document.querySelector('main').dispatchEvent(new DragEvent('dragover', { dataTransfer, bubbles: true }))
    }`)
    await page.getByText('Drop cards to see what they are').waitFor()
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
    await page.getByRole('dialog').getByText('The model answered to the end.').waitFor()
  },
  'receipt, a message': async (page) => {
    await page.locator('.messages summary').first().click()
    await page.getByRole('region', { name: 'The system message' }).waitFor()
  },
  plants: async (page, url) => {
    await page.goto(`${url}/#/plants`)
    await page.getByText('Calathea').first().waitFor()
  },
  'plants, a refused name': async (page) => {
    const name = page.getByRole('textbox', { name: 'Name', exact: true })
    await name.fill('x'.repeat(255))
    await name.press('Enter')
    await page.getByText('is added').waitFor()
    await name.fill('x'.repeat(256))
    await name.press('Enter')
    await page.getByRole('alert').waitFor()
  },
  'plants, details': async (page) => {
    await page.getByRole('grid').press('Enter')
    await page.getByRole('dialog', { name: 'Plant' }).waitFor()
  },
  'plants, deletion': async (page) => {
    await page.getByRole('button', { name: 'Delete this plant' }).click()
    await page.getByRole('dialog', { name: 'Delete this plant?' }).waitFor()
  },
  limits: async (page, url) => {
    await page.goto(`${url}/#/account/limits`)
    await page.getByRole('meter').first().waitFor()
  },
  keys: async (page, url) => {
    await page.goto(`${url}/#/account/keys`)
    await page.getByText('tablet in the glasshouse').waitFor()
  },
  'keys, a fault in the form': async (page) => {
    await page.getByRole('button', { name: 'Make a key' }).click()
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByRole('alert').waitFor()
    await page.getByText('Limits of its own').click()
  },
  'keys, the new key': async (page) => {
    await page.getByRole('checkbox', { name: 'chat' }).check()
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByRole('textbox', { name: 'New key' }).waitFor()
  },
  'keys, rotation': async (page) => {
    await page.getByRole('article').first().getByRole('button', { name: 'Rotate' }).click()
    await page.getByRole('dialog', { name: 'Rotate this key' }).waitFor()
  },
  'keys, revocation': async (page) => {
    await page.keyboard.press('Escape')
    await page.getByRole('article').first().getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('dialog', { name: 'Revoke this key?' }).waitFor()
  },
  usage: async (page, url) => {
    await page.goto(`${url}/#/account/usage`)
    await page.getByRole('table').first().waitFor()
  },
  'usage, by model': async (page) => {
    await page.getByRole('radio', { name: 'Model' }).check()
    await page.getByRole('table', { name: /^Usage by model/ }).waitFor()
  },
  requests: async (page, url) => {
    await page.goto(`${url}/#/account/requests`)
    await page.getByText('understudy').last().waitFor()
  },
  'requests, one of them': async (page, url) => {
    await page.goto(`${url}/#/account/requests/req_running`)
    await page.getByRole('dialog').getByText('Model asked for').waitFor()
  },
  audit: async (page, url) => {
    await page.goto(`${url}/#/account/audit`)
    await page.getByText('up to the newest').waitFor()
    await page.getByText('As it was made').first().click()
  },
}

/** A card with an entry that never fires. */
const mossCard = (more: object) => ({
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: { name: 'Moss', first_mes: 'Hello.', character_book: { entries: [{ keys: [], content: 'x' }] }, ...more },
})

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
    ['صبار'],
  ]) {
    await service.request('/plants', { json: { name, ...(tag === undefined ? {} : { tag }) } })
  }
  await service.request('/keys', {
    json: {
      ...{ name: 'tablet in the glasshouse', scopes: ['plants:read', 'plants:write'] },
      models: Array.from({ length: 100 }, (_, number) => `m${number}`),
    },
  })
  for (const description of ['Grows.', 'Grows on walls.']) {
    await service.request('/characters/Moss', { method: 'PUT', json: mossCard({ description }) })
  }
  for (const character of ['Tolliver', 'Bolt', 'Captain Vesper']) {
    const messages = [{ role: 'user', content: 'Good morning! What is there to do today?' }]
    await service.request('/chat/completions', { json: { model: 'understudy', character, messages } })
  }
  const states = ['running', 'length', 'refused', 'a newer state']
  await putIntoLedger(
    await sqlForThisTest(service.dataDirectory),
    states.map((state) => ({
      id: `req_${state}`,
      created: `${new Date().toISOString().slice(0, 10)}T00:00:00Z`,
      state,
    })),
  )
  return service
}

it.each(screens)('each view is shown, and has no barriers: %s', async (screenName, screen) => {
  const service = await furnished()
  const page = await pageBrowser.openPage(service, { ...screen, reducedMotion: 'reduce', expected: [/400/] })
  for (const [name, open] of Object.entries(views)) {
    if (!name.includes(',')) await page.keyboard.press('Escape')
    await open(page, service.url)
    if (folder !== undefined && !name.includes(',')) {
      mkdirSync(folder, { recursive: true })
      await page.screenshot({ path: join(folder, `${name}-${screenName.replace(/^a (.*), /, '$1-')}.png`) })
    }
    expect([name, await barriersOf(page), await pixelsBeyond(page)]).toEqual([name, [], 0])
  }
})
