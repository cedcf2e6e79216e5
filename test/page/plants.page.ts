import type { Page, Route } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { conservatory } from '../support/command.ts'
import { startCutting } from '../support/page/cutting.ts'
import { browserForThisFile, phone } from '../support/page/page-browser.ts'
import { plantInBulk } from '../support/page/plants.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'

const pageBrowser = browserForThisFile()
const at = '#/plants'

interface SentPlant {
  readonly id: number
  readonly name: string
  readonly tag?: string
}

async function plantsOf(service: TestService): Promise<readonly SentPlant[]> {
  return JSON.parse(await (await service.request('/plants?include=id')).text())
}

async function plant(service: TestService, ...plants: readonly (readonly [name: string, tag?: string])[]) {
  for (const [name, tag] of plants) await service.request('/plants', { json: { name, ...(tag ? { tag } : {}) } })
}

/** The names of the rows that are in the document. */
const namesIn = (page: Page) => page.getByRole('grid').locator('.name').allTextContents()

async function fillIn(page: Page, name: string, tag = '') {
  await page.getByRole('textbox', { name: 'Name' }).fill(name)
  await page.getByLabel('Tag (optional)').fill(tag)
}

const addForm = (page: Page) => page.getByRole('form', { name: 'Add a plant' })

describe('plants', () => {
  it('are added, found, filtered and deleted with the keyboard alone', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('There are no plants yet.').waitFor()
    await page.getByRole('textbox', { name: 'Name' }).focus()
    await page.keyboard.type('  Monstera ')
    await page.keyboard.press('Tab')
    await page.keyboard.type('aroid')
    await page.keyboard.press('Enter')
    await page.getByText('is added, with the id 1.').waitFor()
    await page.keyboard.type('Fern')
    await page.keyboard.press('Tab')
    await page.keyboard.press('ControlOrMeta+A')
    await page.keyboard.press('Delete')
    await page.keyboard.press('Enter')
    await page.getByText('2 plants in all.').waitFor()
    expect(await plantsOf(service)).toEqual([
      { id: 1, name: 'Monstera', tag: 'aroid' },
      { id: 2, name: 'Fern' },
    ])

    const search = page.getByRole('searchbox', { name: 'Search by name' })
    await search.focus()
    await page.keyboard.type('fER')
    await page.getByText('1 of them shown').waitFor()
    expect(await namesIn(page)).toEqual(['Fern'])
    await page.keyboard.type('x')
    await page.getByText('No plant has').waitFor()
    await page.getByRole('button', { name: 'Show all names' }).press('Enter')

    await page.getByRole('combobox', { name: 'With the tag' }).focus()
    await page.keyboard.type('aroid')
    await page.keyboard.press('Enter')
    await page.getByText('1 plant in all.').waitFor()
    expect(await namesIn(page)).toEqual(['Monstera'])

    await page.getByRole('grid').focus()
    await page.keyboard.press('Delete')
    const dialog = page.getByRole('dialog', { name: 'Delete this plant?' })
    expect(await dialog.textContent()).toContain('Monstera (aroid)')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('grid').and(page.locator(':focus')).waitFor()
    await page.keyboard.press('Delete')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByText('is deleted.').waitFor()
    expect(await plantsOf(service)).toEqual([{ id: 2, name: 'Fern' }])
    await page.getByText('No plant has the tag').waitFor()
    await page.getByRole('button', { name: 'Show all tags' }).press('Enter')
    await page.getByText('1 plant in all.').waitFor()
  })

  it('keep a typed filter while pages arrive, and are all shown again when the filter is cleared', async () => {
    const service = await serviceForThisTest()
    await plantInBulk(service, 2500, (id) => ({ name: `plant ${id}`, tag: `tag ${id % 1500}` }))
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('1,000 of 2,500 plants loaded.').waitFor()
    const tag = page.getByRole('combobox', { name: 'With the tag' })
    await tag.pressSequentially('tag 7')
    await page.getByRole('grid').evaluate((grid) => grid.scrollTo(0, grid.scrollHeight))
    await page.getByText('2,000 of 2,500 plants loaded.').waitFor()
    expect(await tag.inputValue()).toBe('tag 7')
    await tag.press('Enter')
    await page.getByText('2 plants in all.').waitFor()
    await tag.press('Escape')
    await page.getByText('1,000 of 2,500 plants loaded.').waitFor()
  })

  it('are opened and deleted by clicks, and filtered by clicking a tag', async () => {
    const service = await serviceForThisTest()
    await plant(service, ['Monstera', 'aroid'], ['Fern', 'fern'], ['Philodendron', 'aroid'])
    const page = await pageBrowser.openPage(service, { at, viewport: phone, hasTouch: true })
    await page.getByRole('button', { name: 'aroid' }).first().click()
    await page.getByText('2 plants in all.').waitFor()
    await page.getByText('Philodendron').first().click()
    const dialog = page.getByRole('dialog', { name: 'Plant' })
    expect(await dialog.textContent()).toContain('Id3')
    await dialog.getByRole('button', { name: 'Delete this plant' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByText('1 plant in all.').waitFor()
    await page.getByRole('button', { name: 'Delete Monstera' }).click()
    await page.getByRole('button', { name: 'Keep it' }).click()
    expect((await plantsOf(service)).map(({ id }) => id)).toEqual([1, 2])
  })

  it('that were deleted elsewhere leave the list, with a notice, when the reader deletes them', async () => {
    const service = await serviceForThisTest()
    await plant(service, ['Monstera'])
    const page = await pageBrowser.openPage(service, { at, expected: [/404/] })
    await page.getByRole('button', { name: 'Delete Monstera' }).click()
    await service.request('/plants/1', { method: 'DELETE' })
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByText('was deleted already').waitFor()
    await page.getByText('There are no plants yet.').waitFor()
  })

  it.each([
    ['script tags', '<script>alert(1)</script><img src=x onerror=alert(1)>'],
    ['characters that change the direction', '\u202eplants\u202d'],
    ['Arabic', 'صبار كبير'],
    ['255 characters outside the basic plane', '🌵'.repeat(255)],
    ['255 characters in a word', 'W'.repeat(255)],
    ['250 combining marks', `e${'\u0301'.repeat(250)}`],
    ['a zero-width space and a line separator', 'one\u200btwo\u2028three'],
    ['characters that templates replace', '{{user}} %s & &amp; \'"'],
  ])('with %s in name and tag are shown as text, in a row of the usual height', async (_what, text) => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, viewport: phone })
    await fillIn(page, text, text)
    await page.keyboard.press('Enter')
    await page.getByText('is added, with the id 1.').waitFor()
    expect(await namesIn(page)).toEqual([text])
    expect((await plantsOf(service))[0]).toEqual({ id: 1, name: text, tag: text })
    const row = page.getByRole('row').nth(1)
    expect((await row.boundingBox())?.height).toBe(44)
    await row.click({ position: { x: 20, y: 20 } })
    expect(await page.getByRole('dialog').textContent()).toContain(text)
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(phone.width)
  })

  it.each<[what: string, name: string, sentence: RegExp]>([
    ['a megabyte', 'x'.repeat(1024 * 1024), /body|larger|bytes/],
    ['256 characters', 'x'.repeat(256), /longer than 255 characters/],
    ['a control character', 'bell\u0007', /control character/],
  ])('with %s in the name are refused at the form, which keeps the typed values', async (_what, name, sentence) => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, expected: [/400|413|ERR_/] })
    await fillIn(page, name, 'tag')
    await addForm(page).getByRole('button', { name: 'Add plant' }).click()
    expect(await addForm(page).getByRole('alert').textContent()).toMatch(sentence)
    expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe(name)
    expect(await page.getByLabel('Tag (optional)').inputValue()).toBe('tag')
    await page.getByRole('textbox', { name: 'Name' }).fill('Fern')
    await page.keyboard.press('Enter')
    await page.getByText('is added, with the id 1.').waitFor()
    expect(await addForm(page).getByRole('alert').count()).toBe(0)
  })
})

describe('adding', () => {
  it('never adds a plant twice when the first reply was lost', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, expected: [/ERR_FAILED/] })
    let isFirst = true
    await page.route('**/plants?include=id', async (route) => {
      if (!isFirst) return route.continue()
      isFirst = false
      await route.fetch()
      return route.abort()
    })
    await fillIn(page, 'Monstera', 'aroid')
    await page.keyboard.press('Enter')
    expect(await addForm(page).getByRole('alert').textContent()).toContain('adding it again makes no second one')
    await addForm(page).getByRole('button', { name: 'Add plant' }).click()
    await page.getByText('is added, with the id 1.').waitFor()
    await fillIn(page, 'Monstera', 'aroid')
    await page.keyboard.press('Enter')
    await page.getByText('is added, with the id 2.').waitFor()
    expect(await plantsOf(service)).toHaveLength(2)
  })

  it.each<[status: number, headers: Readonly<Record<string, string>>, message: string, sentence: string]>([
    [429, { 'retry-after': '7' }, 'Too many requests.', 'Too many requests. Try again in 7 s.'],
    [409, {}, 'The first request is still running. Wait for it.', 'The first request is still running. Wait for it.'],
    [507, {}, 'The disk is full.', 'The disk is full.'],
  ])('shows at the form why a plant was refused (%i), and continues', async (status, headers, message, sentence) => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, expected: [new RegExp(`${status}`)] })
    const refuse = (route: Route) =>
      route.fulfill({
        status,
        headers,
        contentType: 'application/json',
        body: JSON.stringify({ error: status, message }),
      })
    await page.route('**/plants?include=id', refuse)
    await fillIn(page, 'Monstera')
    await page.keyboard.press('Enter')
    expect(await addForm(page).getByRole('alert').textContent()).toBe(sentence)
    await page.unroute('**/plants?include=id')
    await page.keyboard.press('Enter')
    await page.getByText('is added, with the id 1.').waitFor()
  })

  it('says that the device is offline, and keeps the typed values when the view changes', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, expected: [/ERR_INTERNET_DISCONNECTED/] })
    await page.getByText('There are no plants yet.').waitFor()
    await page.getByRole('link', { name: 'Account' }).click()
    // Both views must be loaded before the device is offline.
    await page.getByRole('meter').first().waitFor()
    await page.getByRole('link', { name: 'Plants' }).click()
    await page.context().setOffline(true)
    await fillIn(page, 'Monstera', 'aroid')
    await page.keyboard.press('Enter')
    expect(await addForm(page).getByRole('alert').textContent()).toContain('This device is offline.')
    await page.getByRole('link', { name: 'Account' }).click()
    await page.getByRole('link', { name: 'Plants' }).click()
    expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('Monstera')
    await page.context().setOffline(false)
    await addForm(page).getByRole('button', { name: 'Add plant' }).click()
    await page.getByText('is added, with the id 1.').waitFor()
  })

  it('inserts a plant once at its place in the list while pages are missing', async () => {
    const service = await serviceForThisTest()
    await plantInBulk(service, 1500, (id) => ({ name: `plant ${id}`, tag: null }))
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('1,000 of 1,500 plants loaded.').waitFor()
    await fillIn(page, 'the last')
    await page.keyboard.press('Enter')
    await page.getByText('Its place in the list is not loaded yet.').waitFor()
    await page.getByRole('button', { name: 'Load all' }).click()
    await page.getByText('1,501 plants in all.').waitFor()
    await fillIn(page, 'the very last')
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: 'the very last' }).waitFor()
    expect((await namesIn(page)).slice(-3)).toEqual(['plant 1500', 'the last', 'the very last'])
    await page.getByText('1,502 plants in all.').waitFor()
  })
})

describe('what is shown', () => {
  it('follows the scopes: a read-only key gets no form and no buttons, a write-only key gets the form', async () => {
    const service = await serviceForThisTest()
    await plant(service, ['Monstera'])
    const reader = await pageBrowser.openPage(service, { at, key: await service.makeKey('owner', ['plants:read']) })
    await reader.getByRole('row', { name: 'Monstera' }).waitFor()
    expect(await addForm(reader).count()).toBe(0)
    expect(await reader.getByRole('button', { name: /Delete/ }).count()).toBe(0)
    await reader.getByRole('grid').press('Delete')
    await reader.getByRole('grid').press('Enter')
    expect(await reader.getByRole('dialog').textContent()).not.toContain('Delete')

    const writer = await pageBrowser.openPage(service, { at, key: await service.makeKey('owner', ['plants:write']) })
    await writer.getByText('it lacks the scope plants:read').waitFor()
    expect(await writer.getByRole('grid').count()).toBe(0)
    await fillIn(writer, 'Fern')
    await writer.keyboard.press('Enter')
    await writer.getByText('is added, with the id 2. This key may not list plants.').waitFor()
  })

  it('names the scope plants:write to a reader who has no plants and may not add any', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, key: await service.makeKey('owner', ['plants:read']) })
    await page.getByText('sign in with one that has the scope plants:write').waitFor()
  })

  it('marks the plants that other accounts share, which cannot be deleted', async () => {
    const service = await serviceForThisTest()
    await plant(service, ['Monstera'])
    const key = await service.makeKey('friend')
    const share = ['plants', 'share', '--from', 'owner', '--to', 'friend']
    expect((await conservatory(share, { DATA_DIR: service.dataDirectory })).code).toBe(0)
    await service.request('/plants', { json: { name: 'Fern' }, headers: { authorization: `Bearer ${key}` } })
    const page = await pageBrowser.openPage(service, { at, key })
    const shared = page.getByRole('row', { name: 'Monstera' })
    expect(await shared.textContent()).toContain('Shared')
    expect(await shared.getByRole('button').count()).toBe(0)
    expect(await page.getByRole('row', { name: 'Fern' }).getByRole('button').count()).toBe(1)
    await page.getByRole('grid').focus()
    await page.keyboard.press('End')
    await page.keyboard.press('Delete')
    await page.keyboard.press('Enter')
    expect(await page.getByRole('dialog').textContent()).toContain('It belongs to another account')
    expect(await page.getByRole('dialog').count()).toBe(1)
  })
})

describe('pages', () => {
  it('are loaded while scrolling, and keys go through them', async () => {
    const service = await serviceForThisTest()
    await plantInBulk(service, 2500, (id) => ({ name: `plant ${id}`, tag: null }))
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('1,000 of 2,500 plants loaded.').waitFor()
    await page.getByRole('grid').focus()
    await page.keyboard.press('End')
    await page.getByText('2,000 of 2,500 plants loaded.').waitFor()
    await page.getByRole('row', { name: 'plant 1000' }).waitFor()
    await page.getByRole('grid').evaluate((grid) => grid.scrollTo(0, grid.scrollHeight))
    await page.getByText('2,500 plants in all.').waitFor()
    await page.keyboard.press('End')
    const last = page.getByRole('row', { name: 'plant 2500' })
    await last.waitFor()
    expect(await last.getAttribute('aria-rowindex')).toBe('2501')
    expect(await page.getByRole('grid').getAttribute('aria-activedescendant')).toBe(await last.getAttribute('id'))
    expect(await page.getByRole('row').count()).toBeLessThan(60)
  })

  it('are not loaded by a search, which shows the number of searched plants', async () => {
    const service = await serviceForThisTest()
    await plantInBulk(service, 2500, (id) => ({ name: `plant ${id}`, tag: null }))
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('1,000 of 2,500 plants loaded.').waitFor()
    await page.getByRole('searchbox', { name: 'Search by name' }).fill('plant 2500')
    await page.getByText('1,000 of 2,500 plants loaded. 0 of them shown.').waitFor()
    await page.getByText('None of the plants that are loaded has').waitFor()
    await page.getByRole('button', { name: 'Load all' }).click()
    await page.getByText('2,500 plants in all. 1 of them shown.').waitFor()
    await page.getByRole('row', { name: 'plant 2500' }).waitFor()
  })

  it('are loaded after the wait of a retry-after; “Stop” ends the loading, and “Load all” continues it', async () => {
    const service = await serviceForThisTest()
    await plantInBulk(service, 3500, (id) => ({ name: `plant ${id}`, tag: null }))
    const page = await pageBrowser.openPage(service, { at, expected: [/429/] })
    await page.getByText('1,000 of 3,500 plants loaded.').waitFor()
    let refused = 0
    await page.route('**/plants?*after=*', async (route) => {
      if (refused++ > 0) return route.continue()
      const body = JSON.stringify({ error: 429, message: 'Too many requests.' })
      return route.fulfill({ status: 429, headers: { 'retry-after': '1' }, contentType: 'application/json', body })
    })
    await page.getByRole('button', { name: 'Load all' }).click()
    await page.getByText('The service wants a pause of 1 s').waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('1,000 of 3,500 plants loaded.').waitFor()
    await page.getByRole('button', { name: 'Load all' }).click()
    await page.getByText('3,500 plants in all.').waitFor()
  })

  it('that are loaded stay when the service stops, and the others are loaded when it is back', async () => {
    const service = await serviceForThisTest()
    await plantInBulk(service, 2500, (id) => ({ name: `plant ${id}`, tag: null }))
    const page = await pageBrowser.openPage(service, { at, expected: [/ERR_/] })
    await page.getByText('1,000 of 2,500 plants loaded.').waitFor()
    await page.route('**/plants?*after=*', (route) => route.abort('connectionreset'))
    await page.getByRole('button', { name: 'Load all' }).click()
    const alert = page.getByRole('alert')
    expect(await alert.textContent()).toContain('The service does not answer.')
    expect(await namesIn(page)).toContain('plant 1')
    await page.unroute('**/plants?*after=*')
    await alert.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('2,000 of 2,500 plants loaded.').waitFor()
    expect(await alert.count()).toBe(0)
  })
})

describe('a service that stops while a page is on its way', () => {
  it('is reported as not answering, and the loaded plants stay', async () => {
    const service = await serviceForThisTest()
    await plantInBulk(service, 2500, (id) => ({ name: `plant ${id}`, tag: null }))
    const cutting = await startCutting(service)
    const page = await pageBrowser.openPage({ url: cutting.url, key: service.key }, { at, expected: [/ERR_/] })
    await page.getByText('1,000 of 2,500 plants loaded.').waitFor()
    cutting.isOn = true
    await page.getByRole('button', { name: 'Load all' }).click()
    expect(await page.getByRole('alert').textContent()).toContain('The service does not answer.')
    await page.getByText('1,000 of 2,500 plants loaded.').waitFor()
    cutting.isOn = false
    await page.getByRole('button', { name: 'Load all' }).click()
    await page.getByText('2,500 plants in all.').waitFor()
    await page.getByRole('grid').press('End')
    await page.getByRole('row', { name: 'plant 2500' }).waitFor()
  })
})

describe('a view that could not be loaded', () => {
  it('shows a notice, and is loaded when the page is reloaded', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at: '#/account', expected: [/ERR_FAILED/] })
    await page.getByRole('meter').first().waitFor()
    await page.route('**/plants/view.ts', (route) => route.abort())
    await page.getByRole('link', { name: 'Plants' }).click()
    const alert = page.getByRole('alert')
    expect(await alert.textContent()).toContain('could not be loaded')
    await page.unroute('**/plants/view.ts')
    await alert.getByRole('button', { name: 'Reload the page' }).click()
    await page.getByText('There are no plants yet.').waitFor()
  })
})
