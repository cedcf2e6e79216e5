import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { field } from '../../src/fields.ts'
import { eventually } from '../support/eventually.ts'
import { putIntoLedger } from '../support/ledger.ts'
import { browserForThisFile } from '../support/page/page-browser.ts'
import { pixelsBeyond } from '../support/page/screens.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

const pageBrowser = browserForThisFile()
const at = '#/account/usage'

/** The first second, in UTC, of the day that was so many days ago. */
const daysAgo = (days: number) => `${dayAgo(days)}T00:00:01Z`
const dayAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10)
const written = (day: string) => new Date(day).toLocaleDateString('en-US', { dateStyle: 'medium', timeZone: 'UTC' })

const table = (page: Page, by: string) => page.getByRole('table', { name: new RegExp(`^Usage by ${by}`) })

/** The cells of a table of figures, one line for each row. Waits for the table. */
async function figures(page: Page, by: string): Promise<readonly string[]> {
  await table(page, by).waitFor()
  const rows = await table(page, by).getByRole('row').all()
  return Promise.all(
    rows.map(async (row) => (await row.locator('th, td').allTextContents()).map((text) => text.trim()).join(' | ')),
  )
}

/** The tokens that `GET /usage` has for the first day with use, in the form of a row of the table. */
async function tokensOfToday(service: TestService): Promise<string> {
  const reply: unknown = await (await service.request('/usage?by=day')).json()
  const line = field(field(reply, 'data'), '0')
  const [prompt, completion] = [Number(field(line, 'prompt_tokens')), Number(field(line, 'completion_tokens'))]
  expect(prompt).toBeGreaterThan(0)
  return [prompt, completion].map((tokens) => tokens.toLocaleString('en-US')).join(' | ')
}

describe('the usage of an account', () => {
  it('is summed up by day, model, key and character, chosen with the arrow keys', async () => {
    const service = await serviceForThisTest()
    const chat = (character?: string) =>
      service.request('/chat/completions', {
        json: { model: 'understudy', messages: [{ role: 'user', content: 'Hello.' }], ...(character && { character }) },
      })
    for (const character of ['Fern', 'Fern', undefined]) expect((await chat(character)).status).toBe(200)
    const tokens = await tokensOfToday(service)

    const page = await pageBrowser.openPage(service, { at })
    expect(await figures(page, 'day')).toEqual([
      'Day | Requests | Failed | Prompt tokens | Completion tokens',
      `${written(dayAgo(0))} | 3 | 0 | ${tokens}`,
      `All | 3 | 0 | ${tokens}`,
    ])
    await page.getByRole('radio', { name: 'Day', exact: true }).focus()
    await page.keyboard.press('ArrowRight')
    expect((await figures(page, 'model')).slice(1)).toEqual([
      `understudy | 3 | 0 | ${tokens}`,
      `All | 3 | 0 | ${tokens}`,
    ])
    await page.keyboard.press('ArrowRight')
    expect((await figures(page, 'key'))[1]).toBe(`${service.key.slice(0, 11)} (first key) | 3 | 0 | ${tokens}`)
    await page.keyboard.press('ArrowRight')
    const characters = await figures(page, 'character')
    expect(characters[1]).toMatch(/^Fern [0-9a-f]{8} \| 2 \| 0/)
    expect(characters[2]).toMatch(/^No character \| 1 \| 0/)
  })

  it('has a plot, which is read day by day with a pointer and with keys', async () => {
    const service = await serviceForThisTest()
    const sql = await sqlForThisTest(service.dataDirectory)
    await putIntoLedger(sql, [
      { created: daysAgo(0), promptTokens: 1200, completionTokens: 30 },
      { created: daysAgo(2), promptTokens: 100, completionTokens: 20, state: 'timeout' },
      { created: daysAgo(2), promptTokens: 1, completionTokens: 1 },
    ])
    const page = await pageBrowser.openPage(service, { at })
    const plot = page.getByRole('slider', { name: /Use of a day/ })
    await plot.focus()
    expect(await plot.getAttribute('aria-valuemax')).toBe('29')
    const words = () => plot.getAttribute('aria-valuetext')
    const today = `${written(dayAgo(0))}: 1 request, 1,200 prompt tokens, 30 completion tokens`
    expect(await words()).toBe(today)
    await page.keyboard.press('ArrowLeft')
    await page.getByText(today).waitFor()
    await page.keyboard.press('ArrowLeft')
    expect(await words()).toMatch(/: 0 requests, 0 prompt tokens/)
    await page.keyboard.press('ArrowLeft')
    expect(await words()).toBe(`${written(dayAgo(2))}: 2 requests, 1 failed, 101 prompt tokens, 21 completion tokens`)
    for (const [key, day] of [
      ['Home', 29],
      ['PageUp', 22],
      ['ArrowRight', 21],
      ['PageDown', 28],
      ['End', 0],
    ] as const) {
      await page.keyboard.press(key)
      expect(await words()).toContain(written(dayAgo(day)))
    }
    const canvas = page.locator('.day-plot .u-over').first()
    await canvas.hover({ position: { x: 5, y: 60 } })
    await page
      .locator('.readout')
      .getByText(written(dayAgo(29)))
      .waitFor()
  })

  it('is loaded for the last 7 or 30 days, or for a custom period', async () => {
    const service = await serviceForThisTest()
    const sql = await sqlForThisTest(service.dataDirectory)
    await putIntoLedger(
      sql,
      [0, 6, 7, 29, 30].map((days) => ({ created: daysAgo(days) })),
    )
    const page = await pageBrowser.openPage(service, { at, expected: [/400/] })
    const all = (text: string) => page.getByRole('row', { name: new RegExp(`^All ${text} `) }).waitFor()
    await all('4')
    await page.getByRole('radio', { name: 'Last 7 days' }).check()
    await all('2')
    await page.getByRole('radio', { name: 'From … to' }).check()
    await page.getByLabel('From', { exact: true }).fill(dayAgo(30))
    await all('5')
    await page.getByLabel('To', { exact: true }).fill(dayAgo(7))
    await all('3')
    await page.getByLabel('To', { exact: true }).fill(dayAgo(40))
    expect(await page.getByRole('alert').textContent()).toContain('"from" must be before "to"')
    await page.getByLabel('From', { exact: true }).fill(dayAgo(50))
    await page.getByText('No chat request has ended in this time').waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
    // The choice stays while other parts of the account are shown.
    await page.getByRole('link', { name: 'Limits' }).click()
    await page.getByRole('link', { name: 'Usage' }).click()
    expect(await page.getByLabel('From', { exact: true }).inputValue()).toBe(dayAgo(50))
  })

  it('says that there is no usage, and that there are more lines than shown', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at })
    await page.getByText('No chat request has ended in this time').waitFor()
    const sql = await sqlForThisTest(service.dataDirectory)
    await putIntoLedger(
      sql,
      Array.from({ length: 1001 }, (_, number) => ({ created: daysAgo(0), model: `m${number}` })),
    )
    await page.getByRole('radio', { name: 'Model' }).check()
    await page.getByText('There are more lines than these 1,000').waitFor()
  })

  it('is drawn again for another width and other colours', async () => {
    const service = await serviceForThisTest()
    await putIntoLedger(await sqlForThisTest(service.dataDirectory), [{ created: daysAgo(0), promptTokens: 9 }])
    const page = await pageBrowser.openPage(service, { at, colorScheme: 'light' })
    await page.locator('.day-plot canvas').first().waitFor()
    const plotted = "document.querySelector('.day-plot canvas')"
    const fits = `Math.abs(${plotted}.clientWidth - ${plotted}.closest('.uplot').parentElement.clientWidth) <= 1`
    for (const width of [700, 400, 1000]) {
      await page.setViewportSize({ width, height: 800 })
      await eventually(async () => expect(await page.evaluate(`innerWidth === ${width} && ${fits}`)).toBe(true))
    }
    const light = await page.evaluate<string>(`${plotted}.toDataURL()`)
    await page.emulateMedia({ colorScheme: 'dark' })
    await eventually(async () => expect(await page.evaluate(`${plotted}.toDataURL()`)).not.toBe(light))
  })

  it('can be loaded again after a failure', async () => {
    const service = await serviceForThisTest()
    await putIntoLedger(await sqlForThisTest(service.dataDirectory), [{ created: daysAgo(0), model: 'secret' }])
    const page = await pageBrowser.openPage(service, { at, expected: [/ERR_FAILED/] })
    await table(page, 'day').waitFor()
    await page.route('**/usage?by=model*', (route) => route.abort())
    await page.getByRole('radio', { name: 'Model' }).check()
    expect(await page.getByRole('alert').textContent()).toContain('The service does not answer.')
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Try again' }).click()
    await table(page, 'model').getByText('secret').waitFor()
  })
})

describe('names of models, characters and keys', () => {
  it('are shown as text, whatever characters they have', async () => {
    const service = await serviceForThisTest()
    const model = '<script>alert(1)</script><img src=x onerror=alert(2)>'
    const character = `\u202e\u0007مرحبا ${'W'.repeat(1_000_000)}`
    const sql = await sqlForThisTest(service.dataDirectory)
    await putIntoLedger(sql, [{ created: daysAgo(0), model, character, key: '<b>cv' }])
    const page = await pageBrowser.openPage(service, { at })
    await page.getByRole('radio', { name: 'Model' }).check()
    await page.getByRole('rowheader', { name: model }).waitFor()
    await page.getByRole('radio', { name: 'Key' }).check()
    await page.getByRole('rowheader', { name: '<b>cv' }).waitFor()
    await page.getByRole('radio', { name: 'Character' }).check()
    const name = table(page, 'character').getByText('[U+202E][U+0007]مرحبا WWW')
    await name.waitFor()
    expect((await name.textContent())?.length).toBeLessThan(200)
    expect(await page.locator('#view script, #view img').count()).toBe(0)
    await page.setViewportSize({ width: 390, height: 800 })
    expect(await pixelsBeyond(page)).toBe(0)
  })
})
