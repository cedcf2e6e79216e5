import type { Page, Route } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { gardener, says } from '../support/page/chat-page.ts'
import { barriersOf, browserForThisFile } from '../support/page/page-browser.ts'
import { serviceForThisTest } from '../support/service.ts'
import { upstreamForThisTest } from '../support/upstream.ts'

const pageBrowser = browserForThisFile()

async function signOut(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Your key').waitFor()
}

async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('Your key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByRole('navigation', { name: 'Views' }).waitFor()
}

describe('the page, after another account has signed in,', () => {
  it('shows nothing of the previous account, not even late replies', async () => {
    const service = await serviceForThisTest()
    await service.request('/characters', { json: { name: 'Secret of the owner', first_mes: 'Hush.' } })
    const other = await service.makeKey('other')
    const page = await pageBrowser.openPage(service, { key: null })
    const held = Promise.withResolvers<Route>()
    await page.route('**/characters?*', (route) => held.resolve(route), { times: 1 })
    await signIn(page, service.key)
    const route = await held.promise
    await signOut(page)
    await signIn(page, other)
    await route.continue().catch(() => {})
    await page.getByRole('button', { name: /^Fern/ }).waitFor()
    await page.getByText(/^\d+ characters$/).waitFor()
    expect(await page.getByText('Secret of the owner').count()).toBe(0)
  })

  it.each([
    ['characters', '#/chat', 'characters?*'],
    ['characters', '#/characters', 'characters?*'],
    ['plants', '#/plants', 'plants?*'],
    ['keys', '#/account/keys', 'keys'],
    ['requests', '#/account/requests', 'requests?*'],
    ['changes', '#/account/audit', 'audit?*'],
  ])('has no %s of it in %s', async (_what, at, path) => {
    const service = await serviceForThisTest()
    const name = 'Secret of the owner'
    await service.request('/characters', { json: { name, first_mes: 'Hush.' } })
    await service.request('/plants', { json: { name } })
    await service.request('/keys', { json: { name, scopes: ['chat'] } })
    const messages = [{ role: 'user', content: 'Hello.' }]
    await service.request('/chat/completions', { json: { model: 'understudy', character: name, messages } })
    const page = await pageBrowser.openPage(service, { at })
    const secret = page.locator('main').getByText(name)
    await secret.first().waitFor({ state: 'attached' })
    await signOut(page)
    const held = Promise.withResolvers<Route>()
    await page.route(`**/${path}`, (route) => held.resolve(route), { times: 1 })
    await signIn(page, await service.makeKey('other', ['chat', 'plants:read', 'keys']))
    await page.goto(`${service.url}/${at}`)
    const route = await held.promise
    expect(await secret.count()).toBe(0)
    const answer = page.waitForResponse(`**/${path}`)
    await route.continue()
    await answer
    expect(await secret.count()).toBe(0)
  })

  it.each([
    ['models', '#/chat/Fern', 'Settings'],
    ['limits', '#/account', 'Limits'],
    ['keys', '#/account/keys', 'Keys'],
  ])('does not show that the %s could not be loaded, not even for a moment', async (path, at, opener) => {
    const service = await serviceForThisTest()
    const other = await service.makeKey('other')
    const page = await pageBrowser.openPage(service, { at: '#/plants', expected: [/ERR_FAILED/] })
    await page.route(`**/${path}`, (route) => route.abort())
    const open = async () => {
      await page.goto(`${service.url}/${at}`)
      await page.getByText(opener, { exact: true }).first().click()
    }
    await open()
    await page.getByRole('alert').getByText('The service does not answer.').waitFor()
    if (path === 'models') await page.keyboard.press('Escape')
    await signOut(page)
    await page.unroute(`**/${path}`)
    // The page removes the alert when it begins to load, so the test looks at all that the page adds.
    await page.evaluate(`{
      globalThis.seen = []
      const observer = new MutationObserver((changes) => {
        for (const { addedNodes } of changes) for (const node of addedNodes) seen.push(node.textContent)
      })
      observer.observe(document.body, { childList: true, subtree: true })
    }`)
    await signIn(page, other)
    const answer = page.waitForResponse(`**/${path}`)
    await open()
    await answer
    expect(await page.evaluate<string>('seen.join()')).not.toContain('The service does not answer.')
  })
})

describe('a failure while the page signs in', () => {
  it.each([
    ['a 429', { status: 429, headers: { 'retry-after': '30' } }, 30_000],
    ['a 500', { status: 500 }, 5000],
    ['a 503', { status: 503, headers: { 'retry-after': '2' } }, 2000],
    ['no network', null, 5000],
  ])('keeps the key, says what happened and tries again: %s', async (_what, reply, afterMs) => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { expected: [/ERR_FAILED/, /429|50\d/] })
    await page.clock.install()
    const body = JSON.stringify({ error: { message: 'It does not work now.', code: 'x' } })
    await page.route('**/limits', (route) => (reply ? route.fulfill({ ...reply, body }) : route.abort()))
    await page.reload()
    const alert = page.getByRole('alert')
    await alert.getByText(reply ? 'It does not work now.' : 'The service does not answer.').waitFor()
    await alert.getByText('Your key is kept').waitFor()
    expect(await page.evaluate(() => sessionStorage.getItem('conservatory-key'))).toBe(service.key)
    await page.unroute('**/limits')
    await page.clock.runFor(afterMs)
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
  })

  it('keeps a key from an address or the form too, and a 401 forgets it', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { key: null, expected: [/500|401/] })
    await page.route('**/limits', (route) => route.fulfill({ status: 500 }), { times: 1 })
    await page.goto(`${service.url}/#key=${service.key}`)
    await page.getByRole('alert').getByText('Your key is kept').waitFor()
    await page.reload()
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    await page.route('**/limits', (route) => route.fulfill({ status: 401 }), { times: 1 })
    await page.reload()
    await page.getByLabel('Your key').waitFor()
    expect(await page.evaluate(() => sessionStorage.getItem('conservatory-key'))).toBe(null)
  })

  it('lets the reader sign out', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { expected: [/500/] })
    await page.route('**/limits', (route) => route.fulfill({ status: 500 }))
    await page.reload()
    await signOut(page)
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
  })
})

describe('the settings of the chat', () => {
  const openSettings = async (page: Page) => {
    await page.getByRole('button', { name: /^Fern/ }).click()
    await page.getByRole('button', { name: 'Settings' }).click()
  }
  const nameIn = (page: Page) => page.getByLabel('Your name').inputValue()

  it('are removed by signing out, and do not go out with the next account’s chats', async () => {
    const upstream = await upstreamForThisTest(says('Yes.'))
    const service = await serviceForThisTest({}, gardener(upstream))
    const other = await service.makeKey('other')
    const page = await pageBrowser.openPage(service)
    await openSettings(page)
    await page.getByLabel('Your name').fill('Mara')
    await page.getByLabel('Who you are').fill('A retired hangman.')
    await page.keyboard.press('Escape')
    await signOut(page)
    expect(await page.evaluate(() => localStorage.length)).toBe(0)
    await signIn(page, other)
    await openSettings(page)
    expect(await nameIn(page)).toBe('')
    await page.keyboard.press('Escape')
    await page.getByLabel('Message to Fern').fill('Hello!')
    await page.keyboard.press('Enter')
    await page.getByRole('article').getByText('Yes.').waitFor()
    expect(JSON.stringify(upstream.calls.at(-1)?.body)).not.toMatch(/Mara|hangman/)
  })

  it('stay with their account when its key ends, and the next account does not get them', async () => {
    const service = await serviceForThisTest()
    const other = await service.makeKey('other')
    const page = await pageBrowser.openPage(service, { expected: [/401/] })
    await openSettings(page)
    await page.getByLabel('Your name').fill('Mara')
    for (const [key, name] of [
      [other, ''],
      [service.key, 'Mara'],
    ] as const) {
      await page.route('**/limits', (route) => route.fulfill({ status: 401 }), { times: 1 })
      await page.reload()
      await page.getByLabel('Your key').waitFor()
      await signIn(page, key)
      await page.goto(`${service.url}/#/chat`)
      await openSettings(page)
      expect(await nameIn(page)).toBe(name)
    }
  })
})

describe('a key in the address', () => {
  it.each(['a tab that shows the page', 'a tab that loads the page again'])(
    'replaces a signed-in key only with the consent of the reader, in %s',
    async (where) => {
      const service = await serviceForThisTest()
      const other = await service.makeKey('other')
      const page = await pageBrowser.openPage(service, { at: '#/plants' })
      const account = page.getByRole('banner').locator('.account')
      const dialog = page.getByRole('dialog', { name: 'Another key' })
      const openKey = async () => {
        if (where.includes('loads')) await page.goto('about:blank')
        await page.goto(`${service.url}/#key=${other}`)
      }
      await openKey()
      await dialog.getByText('you leave the account owner').waitFor()
      expect(page.url()).toBe(`${service.url}/`)
      expect(await barriersOf(page)).toEqual([])
      await dialog.getByRole('button', { name: 'Stay here' }).click()
      await dialog.waitFor({ state: 'detached' })
      expect(await account.textContent()).toBe('owner')
      expect(await page.evaluate(() => sessionStorage.getItem('conservatory-key'))).toBe(service.key)
      await openKey()
      await dialog.getByRole('button', { name: 'Use the other key' }).click()
      await account.getByText('other').waitFor()
      // Opening the same address again neither asks nor signs out.
      await openKey()
      await page.waitForURL(`${service.url}/`)
      await account.getByText('other').waitFor()
      expect(await dialog.count()).toBe(0)
      await page.goBack()
      expect(page.url()).not.toContain('key=')
    },
  )

  it('may have any character, encoded or not', async () => {
    const key = 'chosen & by+hand % #%zz=='
    const service = await serviceForThisTest({ BOOTSTRAP_KEY: key })
    for (const written of [key, encodeURIComponent(key)]) {
      const page = await pageBrowser.openPage(service, { key: null })
      await page.goto(`${service.url}/#key=${written}`)
      await page.getByRole('navigation', { name: 'Views' }).waitFor()
    }
  })
})

it('the page forgets the data of the tab and its address when the next key is of another account', async () => {
  const service = await serviceForThisTest()
  const other = await service.makeKey('other')
  const page = await pageBrowser.openPage(service, { at: '#/chat/Fern' })
  await page.getByLabel('Message to Fern').fill('A draft of the owner')
  await page.waitForFunction(() => sessionStorage.getItem('conservatory-chat:Fern')?.includes('A draft'))
  await page.evaluate(() => sessionStorage.removeItem('conservatory-key'))
  await page.goto(`${service.url}/#/account`)
  await page.reload()
  await signIn(page, other)
  expect(await page.evaluate(() => JSON.stringify({ ...sessionStorage }))).not.toContain('Fern')
  await page.goto(`${service.url}/#/characters/Fern`)
  await signOut(page)
  expect(page.url()).toBe(`${service.url}/`)
})
