import type { Locator, Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { type LedgerRow, putIntoLedger } from '../support/ledger.ts'
import { barriersOf, browserForThisFile } from '../support/page/page-browser.ts'
import { pixelsBeyond } from '../support/page/screens.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { sqlForThisTest, type TestSql } from '../support/test-sql.ts'

const pageBrowser = browserForThisFile()
const at = '#/account/requests'

/** The time zone of the reader. Its days begin five hours before the days of UTC. */
const timezoneId = 'Asia/Karachi'

const rows = (page: Page) => page.getByRole('table', { name: /^Chat requests/ }).getByRole('row')
const row = (page: Page, model: string) => rows(page).filter({ hasText: model })

const hasFocus = (element: Locator) => element.evaluate((found) => found.matches(':focus'))

async function serviceWith(...ledger: readonly Partial<LedgerRow>[]): Promise<TestService & { readonly sql: TestSql }> {
  const service = await serviceForThisTest()
  const sql = await sqlForThisTest(service.dataDirectory)
  await putIntoLedger(
    sql,
    ledger.map((each) => ({ created: '2026-11-20T08:00:00Z', ...each })),
  )
  return { ...service, sql }
}

describe('the requests of an account', () => {
  it('are listed with their states', async () => {
    const service = await serviceWith()
    const reply = await service.request('/chat/completions', {
      json: { model: 'understudy', character: 'Fern', messages: [{ role: 'user', content: 'Hello.' }] },
    })
    await service.request('/chat/completions', {
      json: { model: 'understudy/500', messages: [{ role: 'user', content: 'Hello.' }] },
    })
    const page = await pageBrowser.openPage(service, { at })
    await rows(page).nth(2).waitFor()
    await row(page, 'understudy/500').getByText('Fault here').waitFor()
    const answered = rows(page).nth(2)
    expect(await answered.textContent()).toMatch(/understudy.*Fern [0-9a-f]{8}.*\d+ \+ \d+.*Answered/s)
    await page.getByText('2 requests shown.').waitFor()

    await answered.getByRole('link').focus()
    await page.keyboard.press('Enter')
    const details = page.getByRole('dialog', { name: 'Request' })
    await details.getByText('The model answered to the end.').waitFor()
    await details.getByText(reply.headers.get('x-request-id') ?? '?').waitFor()
    expect(page.url()).toContain(`#/account/requests/${reply.headers.get('x-request-id')}`)
    expect(await barriersOf(page)).toEqual([])
    await page.keyboard.press('Escape')
    await details.waitFor({ state: 'detached' })
    expect(page.url()).toMatch(/#\/account\/requests$/)
    expect(await hasFocus(answered.getByRole('link'))).toBe(true)
  })

  it('have their own addresses; an unknown request is reported', async () => {
    const service = await serviceWith({ id: 'req_1', model: 'fallback' })
    await service.sql.run(
      "UPDATE requests SET tokens_exact = 0, prompt_tokens = 9000, upstream_truncated = '2048/9000'",
    )
    const page = await pageBrowser.openPage(service, { at: '#/account/requests/req_1', expected: [/404/] })
    const details = page.getByRole('dialog', { name: 'Request' })
    await details.getByText('fallback').waitFor()
    const facts = await details.textContent()
    for (const fact of [
      'gpt',
      'cv_ab12',
      '9,000 of the prompt',
      'estimated here',
      '41 ms',
      '380 ms',
      '2 times',
      '2,048 tokens',
    ]) {
      expect(facts).toContain(fact)
    }
    const listed = row(page, 'fallback')
    expect(await listed.textContent()).toMatch(/fallback → gpt.*≈ 9,000 \+ 0.*asked 3 times.*prompt was cut/s)
    await page.goBack()
    await details.waitFor({ state: 'detached' })
    await page.goto(`${service.url}/#/account/requests/req_none`)
    await details.getByText('Your account has no such request.').waitFor()
    await details.getByRole('button', { name: 'Close' }).click()
    await details.waitFor({ state: 'detached' })
  })

  it('come in pages, with a button for older requests', async () => {
    const number = (index: number) => String(index).padStart(3, '0')
    const ledger = Array.from({ length: 120 }, (_, index) => ({
      model: `model ${number(index)}`,
      created: new Date(Date.UTC(2026, 10, 20, 8, index)).toISOString(),
    }))
    const page = await pageBrowser.openPage(await serviceWith(...ledger), { at })
    await page.getByText('50 requests shown, there are more.').waitFor()
    await page.getByRole('button', { name: 'More' }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('100 requests shown, there are more.').waitFor()
    await page.keyboard.press('Enter')
    await page.getByText('120 requests shown.').waitFor()
    // The button is gone, so the heading has the focus.
    expect(await hasFocus(page.getByRole('heading', { name: 'Requests' }))).toBe(true)
    const first = await rows(page).locator('td:nth-of-type(1)').allTextContents()
    expect(first).toEqual(ledger.map(({ model }) => `${model} → gpt`).toReversed())
  })

  it('are filtered by day in the reader’s time zone, by model and by state', async () => {
    const service = await serviceWith(
      // Half an hour before and after a midnight of the reader.
      { model: 'evening', created: '2026-11-19T18:30:00Z', state: 'timeout' },
      { model: 'night', created: '2026-11-19T19:30:00Z' },
      { model: 'later', created: '2026-11-21T08:00:00Z', state: 'refused' },
    )
    const page = await pageBrowser.openPage(service, { at, timezoneId, expected: [/400/] })
    await page.getByText('3 requests shown').waitFor()
    const shows = async (...models: readonly string[]) => {
      await page.getByText(`${models.length} request${models.length === 1 ? '' : 's'} shown`).waitFor()
      for (const model of models) await row(page, model).waitFor()
    }
    await page.getByLabel('From', { exact: true }).fill('2026-11-20')
    await shows('night', 'later')
    await page.getByLabel('To', { exact: true }).fill('2026-11-20')
    await shows('night')
    await row(page, 'Nov 20, 2026, 12:30').waitFor()
    await page.getByLabel('To', { exact: true }).fill('2026-11-01')
    await page.getByRole('alert').getByText('"from" must be before "to"').waitFor()
    await page.getByLabel('To', { exact: true }).fill('')
    await page.getByLabel('From', { exact: true }).fill('')
    await shows('evening', 'night', 'later')
    await page.getByRole('combobox', { name: 'State' }).selectOption('Too slow')
    await shows('evening')
    await page.getByLabel('Model', { exact: true }).fill('night')
    await page.keyboard.press('Enter')
    await page.getByText('No request matches.').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await shows('evening', 'night', 'later')
    expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('')
  })

  it('can be refreshed while they run', async () => {
    const service = await serviceWith({ id: 'req_1', model: 'slow', state: 'running' })
    const page = await pageBrowser.openPage(service, { at })
    const again = row(page, 'slow').getByRole('button', { name: /^Look again at the request of Nov 20, 2026/ })
    await again.click()
    await page.getByRole('status').getByText('The request: Running.').waitFor()
    expect(await hasFocus(again)).toBe(true)
    await row(page, 'slow').getByRole('link').click()
    const details = page.getByRole('dialog', { name: 'Request' })
    await details.getByText('The model is still answering.').waitFor()
    await service.sql.run("UPDATE requests SET state = 'stop', completion_tokens = 77")
    await details.getByRole('button', { name: 'Look again' }).click()
    await details.getByText('77 of the answer').waitFor()
    await page.keyboard.press('Escape')
    await row(page, 'slow').getByText('Answered').waitFor()
    expect(await again.count()).toBe(0)
  })

  it('keep a typed filter while they load', async () => {
    const page = await pageBrowser.openPage(await serviceWith({ model: 'one' }), { at })
    await row(page, 'one').waitFor()
    const { promise: isSent, resolve: send } = Promise.withResolvers<void>()
    await page.route('**/requests?*', async (route) => {
      await isSent
      await route.continue()
    })
    await page.getByRole('button', { name: 'Reload' }).click()
    await page.getByLabel('Model', { exact: true }).pressSequentially('tw')
    const answer = page.waitForResponse(/requests\?/)
    send()
    await answer
    await page.locator('section[aria-busy="false"]').waitFor()
    expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('tw')
    await page.keyboard.press('Enter')
    await page.getByText('No request matches.').waitFor()
  })
})

describe('the scope admin', () => {
  it('lists and shows requests of other accounts', async () => {
    const service = await serviceWith({ model: 'own' })
    await service.makeKey('greenhouse', ['chat'])
    await putIntoLedger(service.sql, [
      { id: 'req_others', account: 2, model: 'theirs', state: 'running', created: '2026-11-20T08:00:00Z' },
    ])
    const page = await pageBrowser.openPage(service, { at, expected: [/400/] })
    await row(page, 'own').waitFor()
    await page.getByRole('textbox', { name: 'Account' }).fill('greenhouse')
    await page.keyboard.press('Tab')
    await row(page, 'theirs').waitFor()
    expect(await row(page, 'own').count()).toBe(0)
    await service.sql.run("UPDATE requests SET state = 'length' WHERE id = 'req_others'")
    await row(page, 'theirs')
      .getByRole('button', { name: /^Look again/ })
      .click()
    await row(page, 'theirs').getByText('Cut at a limit').waitFor()
    await row(page, 'theirs').getByRole('link').click()
    await page.getByRole('dialog').getByText('ended there').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('textbox', { name: 'Account' }).fill('nobody')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('is not the name of an account here').waitFor()
  })

  it('is needed for the field of the account', async () => {
    const service = await serviceWith()
    const page = await pageBrowser.openPage(service, { at, key: await service.makeKey('greenhouse', ['chat', 'keys']) })
    await page.getByText('This account has no chat request yet.').waitFor()
    expect(await page.getByRole('textbox', { name: 'Account' }).count()).toBe(0)
  })
})

describe('names of models and characters', () => {
  it('are shown as text, whatever characters they have', async () => {
    const model = '<script>alert(1)</script>'
    const character = `<img src=x onerror=alert(2)>\u202e\u0007مرحبا ${'W'.repeat(1_000_000)}`
    const service = await serviceWith({ id: 'req_1', model, character })
    await service.sql.run('UPDATE requests SET model_used = ?', '<b>bold</b>')
    const page = await pageBrowser.openPage(service, { at, viewport: { width: 390, height: 844 } })
    const listed = row(page, model)
    await listed.waitFor()
    expect(await listed.textContent()).toContain(`${model} → <b>bold</b>`)
    expect(await listed.textContent()).toContain('<img src=x onerror=alert(2)>[U+202E][U+0007]مرحبا WWW')
    expect((await listed.textContent())?.length).toBeLessThan(600)
    expect(await pixelsBeyond(page)).toBe(0)
    await listed.getByRole('link').click()
    await page.getByRole('dialog').getByText(model).waitFor()
    expect(await page.locator('#view :is(script, img, b)').count()).toBe(0)
  })
})
