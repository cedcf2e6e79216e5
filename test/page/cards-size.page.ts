import { expect, it } from 'vitest'
import { cardChunk, png } from '../support/containers.ts'
import { hasShortTasks } from '../support/page/main-thread.ts'
import { browserForThisFile, desktop, phone } from '../support/page/page-browser.ts'
import { openReceiptOfGlobal } from '../support/page/receipts.ts'
import { serviceForThisTest } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

/* Measures the longest task of the page's main thread with 20,000 characters, and with a large prompt. */

const pageBrowser = browserForThisFile()
const count = 20_000

/** A service with so many characters. They are written into its store directly, because uploads would take minutes. */
async function largeService() {
  const service = await serviceForThisTest()
  const card = { spec: 'chara_card_v3', spec_version: '3.0', data: { name: 'Card 00000' } }
  const reply = await service.request('/characters', {
    method: 'POST',
    headers: { 'content-type': 'image/png' },
    body: new Uint8Array(png(cardChunk('ccv3', card))),
  })
  expect(reply.status).toBe(201)
  const sql = await sqlForThisTest(service.dataDirectory)
  const [first] = await sql.run<Record<string, string | number>>('SELECT * FROM characters')
  if (!first) throw new Error('The card is not in the store.')
  const rows = Array.from({ length: count - 1 }, (_, index) => {
    const name = `Card ${String(index + 1).padStart(5, '0')}`
    const tags = [`tag ${index % 50}`, 'a long tag for all of them', 'third', 'fourth']
    const about = JSON.stringify({ tags, creator: `Creator ${index % 999}`, avatar: false })
    return { ...first, name, folded: name.toLowerCase(), about }
  })
  await sql.insert('characters', rows)
  return service
}

it.each([
  ['a phone', phone],
  ['a wide screen', desktop],
])('no task takes longer than 200 ms with 20,000 characters on %s', async (_, viewport) => {
  const service = await largeService()
  const page = await pageBrowser.openPage(service, { viewport, at: '#/account' })
  const gallery = page.locator('.gallery')
  await hasShortTasks(page, 'loading', async () => {
    await page.getByRole('link', { name: 'Characters' }).click()
    await page.getByText(`${(count + 4).toLocaleString('en')} characters`).waitFor()
  })
  await hasShortTasks(page, 'scrolling', async () => {
    for (const part of [0.1, 0.5, 0.99, 0.3]) {
      await page.evaluate(`{
        const list = document.querySelector('.gallery')
        list.scrollTo(0, list.scrollHeight * ${part})
      }`)
      await page.locator('.gallery .name').first().waitFor()
    }
    await gallery.hover()
    for (let step = 0; step < 20; step += 1) await page.mouse.wheel(0, 900)
  })
  await hasShortTasks(page, 'searching', async () => {
    await page.getByLabel('Search characters').pressSequentially('card 0000')
    await page.getByText('11 of ').waitFor()
  })
  await hasShortTasks(page, 'opening and closing', async () => {
    await page.locator('.gallery .name', { hasText: 'Card 00000' }).click()
    await page.getByRole('region', { name: 'Card 00000' }).waitFor()
    await page.getByRole('link', { name: 'All characters' }).click()
    await page.locator('.gallery .name', { hasText: 'Card 00000' }).waitFor()
  })
  expect(await page.locator('.gallery a').count()).toBeLessThan(200)
})

it('no task takes longer than 200 ms with a prompt of 2,000 messages, one of which is a word of a megabyte', async () => {
  const service = await serviceForThisTest()
  const page = await pageBrowser.openPage(service, { viewport: phone, at: '#/characters' })
  await page.locator('.gallery .name').first().waitFor()
  await page.evaluate(`{
    const messages = Array.from({ length: 1999 }, (_, index) => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content: index + ' Why are my leaves yellow? '.repeat(20),
    }))
    messages.push({ role: 'user', content: 'x'.repeat(1_000_000) })
    globalThis.request = { model: 'understudy', character: 'Fern', messages }
  }`)
  await hasShortTasks(page, 'opening the receipt', async () => {
    await openReceiptOfGlobal(page, null)
    await page.getByText('The exact messages').waitFor()
  })
  await hasShortTasks(page, 'reading it', async () => {
    await page.locator('.messages summary').nth(3).click()
    await page.getByRole('button', { name: /Show 50 more/ }).click()
  })
})
