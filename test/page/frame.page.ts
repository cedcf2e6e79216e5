import { describe, expect, it } from 'vitest'
import { barriersOf, browserForThisFile } from '../support/page/page-browser.ts'
import { serviceForThisTest } from '../support/service.ts'

const pageBrowser = browserForThisFile()

describe('the notices', () => {
  it('disappear after the time to read them, but not under the pointer', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service)
    await page.clock.install()
    await page.goto(`${service.url}/#/characters/Fern`)
    const save = page.getByRole('button', { name: 'Export' })
    const notice = page.getByText('Saved.')
    await save.click()
    await notice.hover()
    await page.clock.runFor(60_000)
    expect(await notice.count()).toBe(1)
    await save.hover()
    await page.clock.runFor(4000)
    expect(await notice.count()).toBe(1)
    await page.clock.runFor(60_000)
    await notice.waitFor({ state: 'detached' })
  })
})

describe('signing in', () => {
  it('removes the key from the address and the history, and keeps it for the tab', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service)
    expect(page.url()).not.toContain(service.key)
    expect(await page.evaluate(() => sessionStorage.getItem('conservatory-key'))).toBe(service.key)
    expect(await page.evaluate(() => JSON.stringify({ ...localStorage }))).not.toContain(service.key)
    await page.reload()
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Your key').waitFor()
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
  })

  it('shows the fault of a key, and then accepts a valid key', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { key: null, expected: [/401/] })
    expect(await barriersOf(page)).toEqual([])
    await page.getByLabel('Your key').fill('cv_nonsense')
    await page.keyboard.press('Enter')
    expect(await page.getByRole('alert').textContent()).toMatch(/key is/)
    await page.getByLabel('Your key').fill(`${service.key}\u200b`)
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('Copy it once more').waitFor()
    await page.getByLabel('Your key').fill(service.key)
    await page.keyboard.press('Enter')
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
  })

  it('takes the key from an address that is opened in a tab that has the page already', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { key: await service.makeKey('reader', ['plants:read']) })
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Your key').waitFor()
    await page.goto(`${service.url}/#key=${encodeURIComponent(service.key)}`)
    await page.getByRole('link', { name: 'Chat' }).waitFor()
    expect(page.url()).toBe(`${service.url}/`)
    expect(await page.evaluate(() => sessionStorage.getItem('conservatory-key'))).toBe(service.key)
  })

  it('opens the view of the address', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { key: null, at: '#/plants' })
    await page.getByLabel('Your key').fill(service.key)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Plants' }).waitFor()
    expect(await page.title()).toBe('Plants – Conservatory')
  })

  it('shows only the views that the scopes of the key allow', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { key: await service.makeKey('reader', ['plants:read']) })
    const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link')
    expect(await links.allTextContents()).toEqual(['Plants', 'Account'])
  })
})
