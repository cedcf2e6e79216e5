import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { browserForThisFile, phone } from '../support/page/page-browser.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'

const pageBrowser = browserForThisFile()
const at = '#/account/keys'
const inADay = Math.floor(Date.now() / 1000) + 86_400

interface SentKey {
  readonly id: string
  readonly key: string
  readonly prefix: string
  readonly name: string | null
  readonly scopes: readonly string[]
  readonly expires: number | null
  readonly limits: Readonly<Record<string, number>>
  readonly models: readonly string[] | null
}

async function makeKey(service: TestService, wanted: Readonly<Record<string, unknown>>): Promise<SentKey> {
  return JSON.parse(await (await service.request('/keys', { json: wanted })).text())
}

async function keysOf(service: TestService): Promise<readonly SentKey[]> {
  const list: { readonly data: readonly SentKey[] } = JSON.parse(await (await service.request('/keys')).text())
  return list.data
}

async function works(service: TestService, key: string): Promise<boolean> {
  return (await service.request('/limits', { headers: { authorization: `Bearer ${key}` } })).ok
}

/** The text field with the new key. The page shows it once. */
const shownKey = (page: Page) => page.getByRole('textbox', { name: 'New key' })
const cardOf = (page: Page, name: string) => page.getByRole('article', { name })
async function openForm(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Make a key' }).click()
  await page.getByRole('dialog', { name: 'Make a key' }).waitFor()
}
const submit = (page: Page) => page.getByRole('button', { name: 'Make the key' }).click()

describe('limits', () => {
  it('of the key and of its account are shown with their use, even if the key can only read plants', async () => {
    const service = await serviceForThisTest({ LIMITS: 'plants=10,tokens_per_day=1000' })
    for (let number = 1; number <= 9; number++) await service.request('/plants', { json: { name: `plant ${number}` } })
    const { key } = await makeKey(service, {
      ...{ name: '<b>reader</b>', scopes: ['plants:read'], limits: { plants: 9, requests_per_minute: 100 } },
    })
    const page = await pageBrowser.openPage(service, { key, at: '#/account', timezoneId: 'Asia/Kolkata' })
    const plants = page.getByRole('meter', { name: 'Plants, Account', exact: true })
    expect(await plants.getAttribute('aria-valuetext')).toBe('9 of 10')
    expect(await page.getByRole('meter', { name: 'Plants, This key' }).getAttribute('aria-valuetext')).toBe('9 of 9')
    await page.getByText('used up').waitFor()
    expect(await page.getByRole('meter', { name: 'Tokens per month, Account' }).count()).toBe(0)
    // Midnight in UTC is 5:30 in the time zone of the page.
    await page
      .getByText(/All of it is back on .* 5:30\sAM/)
      .first()
      .waitFor()
    await page.getByText('<b>reader</b>').waitFor()
    expect(await page.getByRole('link', { name: 'Keys' }).count()).toBe(0)

    await service.request('/plants/9', { method: 'DELETE' })
    await page.getByRole('button', { name: 'Reload' }).click()
    await page.getByText('8 of 10').waitFor()
  })
})

describe('a part of the account', () => {
  it.each([
    ['Limits', 'limits', 'This key', 'Keys'],
    ['Keys', 'keys', '1 key', 'Limits'],
    ['Usage', 'usage?*', 'No chat request has ended in this time', 'Limits'],
    ['Requests', 'requests?*', 'This account has no chat request yet.', 'Limits'],
    ['Audit trail', 'audit?*', '2 changes shown', 'Limits'],
  ])('is loaded again after a failure: %s', async (title, path, shown, other) => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at: '#/account', expected: [/ERR_FAILED/] })
    await page.getByRole('link', { name: other }).click()
    await page.route(`**/${path}`, (route) => route.abort())
    await page.getByRole('link', { name: title }).click()
    await page.getByRole('alert').getByText('The service does not answer.').waitFor()
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText(shown).waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
  })
})

describe('making a key', () => {
  it('works with the keyboard alone, and shows the key once', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, permissions: ['clipboard-read', 'clipboard-write'] })
    await page.getByRole('button', { name: 'Make a key' }).press('Enter')
    await page.keyboard.type('the phone')
    await page.getByRole('checkbox', { name: 'chat' }).press('Space')
    await page.getByRole('checkbox', { name: 'plants:read' }).press('Space')
    expect(await page.getByRole('checkbox', { name: 'admin' }).count()).toBe(0)
    await page.getByLabel('Name').press('Enter')
    const key = await shownKey(page).inputValue()
    expect(await works(service, key)).toBe(true)
    await page.getByText('It is not shown again').waitFor()
    const [, made] = await keysOf(service)
    expect(made).toMatchObject({
      name: 'the phone',
      scopes: ['plants:read', 'chat'],
      expires: null,
      limits: {},
      models: null,
    })

    await shownKey(page).and(page.locator(':focus')).waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByText('The key is in the clipboard.').waitFor()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(key)
    // The key stays on the page until “I have kept it” is pressed, and is nowhere afterwards.
    await page.getByRole('link', { name: 'Limits' }).click()
    await page.getByRole('meter').first().waitFor()
    await page.getByRole('link', { name: 'Keys' }).click()
    expect(await shownKey(page).inputValue()).toBe(key)
    await page.getByRole('button', { name: 'I have kept it' }).click()
    expect(await page.content()).not.toContain(key)
    expect(await page.evaluate<string>('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).not.toContain(
      key,
    )
    await cardOf(page, 'the phone').waitFor()
  })

  it('accepts an end in the reader’s time zone, limits and models', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, timezoneId: 'Asia/Kolkata' })
    await openForm(page)
    await page.getByRole('checkbox', { name: 'chat' }).check()
    await page.getByLabel('It ends').fill('2099-01-02T05:30')
    await page.getByText('Limits of its own').click()
    await page.getByLabel('Tokens per day').fill('5000')
    await page.getByRole('spinbutton', { name: 'Plants', exact: true }).fill('0')
    await page.getByLabel('Models').fill('understudy\n\n local/* ')
    await submit(page)
    await shownKey(page).waitFor()
    const [, made] = await keysOf(service)
    const expires = Date.UTC(2099, 0, 2) / 1000
    expect(made).toMatchObject({
      expires,
      limits: { tokens_per_day: 5000, plants: 0 },
      models: ['understudy', 'local/*'],
    })
    const card = page.getByRole('article').nth(1)
    expect(await card.textContent()).toMatch(/Jan 2, 2099, 5:30\sAM/)
    expect(await card.textContent()).toContain('Tokens per day: 5,000')
  })

  it('offers only the rights of the signed-in key, and shows a fault at the field that exceeds them', async () => {
    const service = await serviceForThisTest()
    const { key } = await makeKey(service, {
      ...{
        name: 'panel',
        scopes: ['keys', 'chat'],
        expires: inADay,
        limits: { tokens_per_day: 100 },
        models: ['understudy'],
      },
    })
    const page = await pageBrowser.openPage(service, { at, key, expected: [/403|400/] })
    await cardOf(page, 'panel').waitFor()
    await openForm(page)
    expect(await page.getByRole('checkbox').count()).toBe(2)
    expect(await page.getByLabel('Tokens per day').inputValue()).toBe('100')
    expect(await page.getByLabel('Models').inputValue()).toBe('understudy')
    await page.getByLabel('Name').fill('x'.repeat(256))
    await submit(page)
    const group = page.getByRole('group', { name: 'It may' })
    expect(await group.getByRole('alert').textContent()).toBe('Choose what it may do.')
    await page.getByRole('checkbox', { name: 'chat' }).check()

    const faultOf = async (label: string): Promise<string | null> => {
      await submit(page)
      const field = page.getByLabel(label)
      await field.and(page.locator('[aria-invalid=true]:focus')).waitFor()
      const fault = page.getByRole('alert').and(page.locator(`#${await field.getAttribute('aria-describedby')}`))
      return fault.textContent()
    }
    expect(await faultOf('Name')).toContain('longer than 255 characters')
    await page.getByLabel('Name').fill('child')
    await page.getByLabel('It ends').fill('')
    expect(await faultOf('It ends')).toMatch(/^Your key ends on .*20\d\d.*must not end later/)
    await page.getByLabel('It ends').fill('2020-01-01T00:00')
    expect(await faultOf('It ends')).toContain('is past')
    expect(await page.getByLabel('It ends').inputValue()).toBe('2020-01-01T00:00')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await openForm(page)
    await page.getByRole('checkbox', { name: 'chat' }).check()
    await page.getByLabel('Tokens per day').fill('99')
    await page.getByRole('spinbutton', { name: 'Plants', exact: true }).fill('7')
    await page.getByLabel('Models').fill('understudy\nother')
    expect(await faultOf('Models')).toContain('may use these models alone')
    await page.getByLabel('Models').fill('understudy')
    await submit(page)
    await shownKey(page).waitFor()
    const [, , made] = await keysOf(service)
    expect(made?.limits).toEqual({ tokens_per_day: 99, plants: 7 })
  })

  it('keeps the form when the service does not answer', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, expected: [/ERR_FAILED/] })
    await openForm(page)
    await page.getByLabel('Name').fill('the phone')
    await page.getByRole('checkbox', { name: 'chat' }).check()
    await page.route('**/keys', (route) => route.abort())
    await submit(page)
    expect(await page.getByRole('alert').textContent()).toContain('It may have been made all the same')
    await page.unroute('**/keys')
    await submit(page)
    await shownKey(page).waitFor()
    expect((await keysOf(service)).map(({ name }) => name)).toEqual(['first key', 'the phone'])
  })
})

describe('rotating a key', () => {
  it('shows the new key, and keeps the old one valid for the chosen overlap', async () => {
    const service = await serviceForThisTest()
    const old = await makeKey(service, { name: 'phone', scopes: ['chat'] })
    const page = await pageBrowser.openPage(service, { at })
    await cardOf(page, 'phone').getByRole('button', { name: 'Rotate' }).click()
    await page.getByLabel('The old key goes on for').fill('2')
    await page.getByLabel('Unit').selectOption('hours')
    await page.getByRole('button', { name: 'Rotate', exact: true }).click()
    const key = await shownKey(page).inputValue()
    expect([await works(service, key), await works(service, old.key)]).toEqual([true, true])
    const ends = (await keysOf(service)).find(({ id }) => id === old.id)?.expires ?? 0
    expect(Math.abs(ends - Date.now() / 1000 - 7200)).toBeLessThan(60)
    expect(await cardOf(page, 'phone').count()).toBe(2)
  })

  it('signs the page in with the new key, if it was signed in with the old key', async () => {
    const service = await serviceForThisTest()
    const own = await makeKey(service, { name: 'panel', scopes: ['keys', 'chat'] })
    const page = await pageBrowser.openPage(service, { at, key: own.key })
    await cardOf(page, 'panel').getByRole('button', { name: 'Rotate' }).click()
    await page.getByText('You are signed in with this key.').waitFor()
    await page.getByLabel('The old key goes on for').fill('0')
    await page.keyboard.press('Enter')
    const key = await shownKey(page).inputValue()
    await page.getByText('You are signed in with it from now on').waitFor()
    expect([await works(service, key), await works(service, own.key)]).toEqual([true, false])
    await page.reload()
    await cardOf(page, 'panel').getByText('you are signed in with it').waitFor()
    expect(await shownKey(page).count()).toBe(0)
  })
})

describe('revoking a key', () => {
  it('asks for confirmation, and ends the key', async () => {
    const service = await serviceForThisTest()
    const { key } = await makeKey(service, { name: 'phone', scopes: ['chat'] })
    const page = await pageBrowser.openPage(service, { at })
    const revoke = cardOf(page, 'phone').getByRole('button', { name: 'Revoke' })
    await revoke.press('Enter')
    await page.keyboard.press('Escape')
    await revoke.and(page.locator(':focus')).waitFor()
    expect(await works(service, key)).toBe(true)
    await revoke.press('Enter')
    await page.getByRole('button', { name: 'Revoke', exact: true }).press('Enter')
    await page.getByText(/The key cv_.* is revoked\./).waitFor()
    expect(await works(service, key)).toBe(false)
    expect(await cardOf(page, 'phone').count()).toBe(0)
  })

  it('warns if the page is signed in with this key, and then signs the page out', async () => {
    const service = await serviceForThisTest()
    const own = await makeKey(service, { name: 'panel', scopes: ['keys'] })
    const page = await pageBrowser.openPage(service, { at, key: own.key })
    await cardOf(page, 'panel').getByRole('button', { name: 'Revoke' }).click()
    await page.getByText('You are signed in with this key:').waitFor()
    await page.getByRole('button', { name: 'Revoke', exact: true }).click()
    expect(await page.getByRole('alert').textContent()).toContain('You have revoked the key')
    expect(await works(service, own.key)).toBe(false)
  })

  it('explains why the last key of the operator, and a key with more rights, cannot be revoked', async () => {
    const service = await serviceForThisTest()
    const { key } = await makeKey(service, { name: 'panel', scopes: ['keys'] })
    const operator = await pageBrowser.openPage(service, { at, expected: [/409/] })
    await cardOf(operator, 'first key').getByRole('button', { name: 'Revoke' }).click()
    await operator.getByRole('button', { name: 'Revoke', exact: true }).click()
    expect(await operator.getByRole('dialog').getByRole('alert').textContent()).toMatch(/admin/)
    const tenant = await pageBrowser.openPage(service, { at, key, expected: [/403/] })
    await cardOf(tenant, 'first key').getByRole('button', { name: 'Revoke' }).click()
    await tenant.getByRole('button', { name: 'Revoke', exact: true }).click()
    expect(await tenant.getByRole('dialog').getByRole('alert').textContent()).toMatch(/Your key lacks/)
  })
})

describe('the list of keys', () => {
  it('shows hostile names as text, and finds a key among many', async () => {
    const service = await serviceForThisTest()
    const names = ['<script>alert(1)</script>', '\u202eenohp', 'W'.repeat(255), '🌵'.repeat(255)]
    const models = Array.from({ length: 100 }, (_, number) => `model-${number}-${'m'.repeat(200)}`)
    for (const name of names) await makeKey(service, { name, scopes: ['chat'], models })
    for (let number = 1; number <= 110; number++) await makeKey(service, { name: `key ${number}`, scopes: ['chat'] })
    const page = await pageBrowser.openPage(service, { at, viewport: phone })
    await page.getByText('115 keys').waitFor()
    expect(await page.getByRole('article').count()).toBe(100)
    await page.getByRole('button', { name: 'Show more keys' }).click()
    expect(await page.getByRole('article').count()).toBe(115)
    const shown = await page.getByRole('article').getByRole('heading').allTextContents()
    for (const name of names) expect(shown.some((text) => text.startsWith(name))).toBe(true)
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(phone.width)
    expect(await page.evaluate<number>('document.documentElement.scrollHeight')).toBeLessThanOrEqual(phone.height)
    await page.getByRole('searchbox').fill('KEY 107')
    await page.getByText('1 key', { exact: true }).waitFor()
    await cardOf(page, 'key 107').waitFor()
  })
})
