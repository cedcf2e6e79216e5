import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { browserForThisFile } from '../support/page/page-browser.ts'
import { pixelsBeyond } from '../support/page/screens.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { sqlForThisTest, type Value } from '../support/test-sql.ts'

const pageBrowser = browserForThisFile()
const at = '#/account/audit'

const records = (page: Page) => page.getByRole('list', { name: 'Changes' }).getByRole('listitem')
const titles = (page: Page) => records(page).getByRole('heading').allTextContents()

/** The lines of a record's table, with bars between the cells. */
async function lines(record: ReturnType<typeof records>): Promise<readonly string[]> {
  const found = await record.getByRole('row').all()
  return Promise.all(found.map(async (row) => (await row.locator('th, td').allTextContents()).join(' | ')))
}

interface Recorded {
  readonly action: string
  readonly at?: string
  readonly target?: string | null
  readonly before?: object | null
  readonly after?: object | null
}

/** Puts records into the trail, as if the service had written them. */
async function record(service: TestService, ...entries: readonly Recorded[]): Promise<void> {
  const sql = await sqlForThisTest(service.dataDirectory)
  const rows = entries.map(({ action, at: moment, target = 'owner', before = null, after = null }, index) => {
    const row: Readonly<Record<string, Value>> = {
      id: `audit_${action}_${index}`,
      at: moment === undefined ? 1_795_000_000 : Date.parse(moment) / 1000,
      actor: 'service',
      actor_key: null,
      actor_account: null,
      address: null,
      action,
      target,
      account: 1,
      account_name: 'owner',
      before: before && JSON.stringify(before),
      after: after && JSON.stringify(after),
    }
    return row
  })
  await sql.insert('audit_records', rows)
}

describe('the audit trail', () => {
  it('shows the actor, the address, and the state before and after each change', async () => {
    const service = await serviceForThisTest()
    const made: unknown = await (
      await service.request('/keys', {
        json: { name: 'phone', scopes: ['chat', 'plants:read'], limits: { requests_per_minute: 60 } },
      })
    ).json()
    const id = typeof made === 'object' && made !== null && 'id' in made ? String(made.id) : ''
    await service.request(`/keys/${id}`, { method: 'DELETE' })
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('4 changes shown, up to the newest.').waitFor()
    const prefix = (await titles(page))[2]?.slice('Key made: '.length) ?? ''
    expect(await titles(page)).toEqual([
      'Account made: owner',
      `Key made: ${service.key.slice(0, 11)}`,
      `Key made: ${prefix}`,
      `Key revoked: ${prefix}`,
    ])
    await records(page).nth(0).getByText('by the service itself').waitFor()
    const key = records(page).nth(2)
    await key.getByText(`by the key ${service.key.slice(0, 11)} (first key) of owner, from 127.0.0.1`).waitFor()
    await key.getByText('As it was made').focus()
    await page.keyboard.press('Enter')
    await key.getByRole('table').waitFor()
    expect(await lines(key)).toEqual([
      'What | Value',
      'Account | owner',
      'Name | phone',
      'Scopes | chatplants:read',
      'Expires | never',
      'Stops working | no',
      'Limits: requests per minute | 60',
      'Models | all',
    ])
    const revoked = await lines(records(page).nth(3))
    expect(revoked[0]).toBe('What | Before | After')
    expect(revoked[1]).toMatch(/^Stops working \| no \| \w+ \d+, \d+/)
  })

  it('marks added and removed entries of a list, and shows unknown actions', async () => {
    const service = await serviceForThisTest()
    await record(
      service,
      { action: 'models.reloaded', target: null, before: { models: ['a', 'b'] }, after: { models: ['b', 'c'] } },
      {
        action: 'account.limited',
        before: { limits: { plants: 5 } },
        after: { limits: { plants: 'none', characters: 7 } },
      },
      { action: 'moss.watered', after: { drops_of_water: 3000 } },
    )
    const page = await pageBrowser.openPage(service, { at })
    const models = records(page).nth(2)
    await models.waitFor()
    expect(await lines(models)).toEqual(['What | Before | After', 'Models | ab | cb'])
    expect(await models.locator('.other').allTextContents()).toEqual(['a', 'c'])
    expect(await lines(records(page).nth(3))).toEqual([
      'What | Before | After',
      'Limits: plants | 5 | none',
      'Limits: characters | – | 7',
    ])
    await records(page).nth(4).getByText('As it was made').click()
    expect((await titles(page))[4]).toBe('moss.watered: owner')
    expect((await lines(records(page).nth(4)))[1]).toBe('Drops of water | 3,000')
  })

  it('names the keys of the first ten pages of keys', async () => {
    const service = await serviceForThisTest()
    const json = { name: 'phone', scopes: ['keys'] }
    // Eleven keys make the next one each, and the last one revokes itself.
    let last = { key: service.key, id: '' }
    for (let made = 0; made < 11; made += 1) {
      const headers = { authorization: `Bearer ${last.key}` }
      last = JSON.parse(await (await service.request('/keys', { headers, json })).text())
    }
    const headers = { authorization: `Bearer ${last.key}` }
    await service.request(`/keys/${last.id}`, { method: 'DELETE', headers })
    const page = await pageBrowser.openPage(service)
    const pages: string[] = []
    await page.route(/\/keys(\?after=.*)?$/, (route) => {
      const url = new URL(route.request().url())
      url.searchParams.set('limit', '1')
      pages.push(url.search)
      return route.continue({ url: url.href })
    })
    await page.goto(`${service.url}/${at}`)
    await page.getByText('14 changes shown, up to the newest.').waitFor()
    const named = records(page).filter({ hasText: /by the key cv_\w+ \((first key|phone)\)/ })
    await expect.poll(() => named.count()).toBe(10)
    await page.getByRole('button', { name: 'Reload' }).click()
    await page.locator('section[aria-busy="false"]').waitFor()
    expect(pages).toHaveLength(10)
  })

  it('comes in pages, with a button for newer records', async () => {
    const service = await serviceForThisTest()
    await record(
      service,
      ...Array.from({ length: 103 }, (_, index) => ({ action: 'account.exported', target: `${index}` })),
    )
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('50 changes shown, there are newer ones.').waitFor()
    await page.getByRole('button', { name: 'More' }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('100 changes shown').waitFor()
    await page.getByRole('button', { name: 'More' }).click()
    await page.getByText('105 changes shown, up to the newest.').waitFor()
    expect((await titles(page)).at(-1)).toBe('Account exported: 102')
  })

  it('is filtered by day in the reader’s time zone, by action, and by account', async () => {
    const service = await serviceForThisTest()
    await service.makeKey('greenhouse', ['chat'])
    await record(
      service,
      // Half an hour before and after a midnight of the reader.
      { action: 'account.exported', target: 'evening', at: '2040-11-19T18:30:00Z' },
      { action: 'account.exported', target: 'night', at: '2040-11-19T19:30:00Z' },
    )
    const page = await pageBrowser.openPage(service, { at, timezoneId: 'Asia/Karachi' })
    await page.getByText('6 changes shown').waitFor()
    await page.getByLabel('Since', { exact: true }).fill('2040-11-20')
    await page.getByText('1 change shown').waitFor()
    expect(await titles(page)).toEqual(['Account exported: night'])
    await page.getByLabel('Since', { exact: true }).fill('')
    await page.getByRole('combobox', { name: 'What' }).selectOption('Account made')
    await page.getByText('2 changes shown').waitFor()
    await page.getByRole('textbox', { name: 'Account' }).fill('greenhouse')
    await page.keyboard.press('Enter')
    await page.getByText('1 change shown').waitFor()
    expect(await titles(page)).toEqual(['Account made: greenhouse'])
    await page.getByRole('textbox', { name: 'Account' }).fill('nobody')
    await page.keyboard.press('Tab')
    await page.getByText('No change matches.').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByText('6 changes shown').waitFor()
  })

  it('shows only the own account to a key with the scope keys, and is missing for a key without this scope', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at, key: await service.makeKey('greenhouse', ['keys']) })
    await page.getByText('2 changes shown').waitFor()
    expect((await titles(page))[0]).toBe('Account made: greenhouse')
    expect(await page.getByRole('textbox', { name: 'Account' }).count()).toBe(0)
    const other = await pageBrowser.openPage(service, { at, key: await service.makeKey('greenhouse', ['chat']) })
    await other.getByRole('navigation', { name: 'Parts of the account' }).waitFor()
    expect(await other.getByRole('link', { name: 'Audit trail' }).count()).toBe(0)
  })
})

describe('names and facts', () => {
  it('are shown as text, whatever characters they have', async () => {
    const service = await serviceForThisTest()
    const name = '<script>alert(1)</script>مرحبا'
    const made = await service.request('/keys', { json: { name, scopes: ['chat'] } })
    expect(made.status).toBe(201)
    await record(service, {
      action: '<img src=x onerror=alert(2)>',
      target: `\u202e\u0007${'W'.repeat(1_000_000)}`,
      before: { '<b>x': ['<i>1', null] },
      after: { '<b>x': ['<i>2'], y: { z: { deep: '<u>' } } },
    })
    const page = await pageBrowser.openPage(service, { at, viewport: { width: 390, height: 844 } })
    await records(page).nth(3).waitFor()
    await records(page).nth(2).getByText('As it was made').click()
    expect((await lines(records(page).nth(2)))[2]).toBe(`Name | ${name}`)
    expect((await titles(page))[3]).toMatch(/^<img src=x onerror=alert\(2\)>: \[U\+202E\]\[U\+0007\]WWW/)
    expect(await lines(records(page).nth(3))).toEqual([
      'What | Before | After',
      '<b>x | <i>1all | <i>2',
      'Y: z | – | {"deep":"<u>"}',
    ])
    expect(await pixelsBeyond(page)).toBe(0)
    expect(await page.locator('#view :is(script, img, b, i, u)').count()).toBe(0)
  })
})
