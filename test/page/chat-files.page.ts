import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { says, talkToFern, toldLast } from '../support/page/chat-page.ts'
import { browserForThisFile } from '../support/page/page-browser.ts'

const pageBrowser = browserForThisFile()

/** Exports the conversation, with the button in the settings. @returns the name and the lines of the file */
async function exported(
  page: Page,
): Promise<{ readonly name: string; readonly lines: readonly Record<string, unknown>[] }> {
  await page.getByRole('button', { name: 'Settings' }).click()
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export' }).click(),
  ])
  await page.keyboard.press('Escape')
  const text = await readFile(await download.path(), 'utf8')
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  return { name: download.suggestedFilename(), lines }
}

async function importText(page: Page, text: string): Promise<void> {
  await page.getByRole('button', { name: 'Settings' }).click()
  const file = { name: 'chat.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(text) }
  await page.getByLabel('Conversation to import').setInputFiles(file)
}

describe('a conversation as a file', () => {
  it('has SillyTavern’s format: a line about the conversation, then a line for each message with all its texts', async () => {
    const { page, messages, say } = await talkToFern(pageBrowser, [says('One.'), says('Two.')])
    await say('Count!')
    await messages.nth(2).getByText('One.').waitFor()
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).click()
    await messages.nth(2).getByText('Two.').waitFor()
    await messages.nth(2).getByText('2 / 2').waitFor()
    const { name, lines } = await exported(page)
    expect(name).toMatch(/^Fern \d{4}-\d\d-\d\d\.jsonl$/)
    const [head, greeting, question, reply] = lines
    const date = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    expect(head).toEqual({ user_name: 'User', character_name: 'Fern', create_date: date, chat_metadata: {} })
    expect(greeting).toMatchObject({ name: 'Fern', is_user: false, is_system: false, swipe_id: 0 })
    expect(greeting?.['swipes']).toHaveLength(3)
    expect(question).toEqual({
      name: 'User',
      is_user: true,
      is_system: false,
      send_date: date,
      mes: 'Count!',
      extra: {},
    })
    const extra = { model: 'gardener' }
    const details = { send_date: date, extra }
    expect(reply).toEqual({
      ...{ name: 'Fern', is_user: false, is_system: false, send_date: date, mes: 'Two.', extra },
      ...{ swipe_id: 1, swipes: ['One.', 'Two.'], swipe_info: [details, details] },
    })
    expect(lines).toHaveLength(4)
  })

  it('can be imported unchanged, and continued', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [
      says('One.'),
      says('Two.'),
      says('Three.'),
    ])
    await say('Count!')
    await messages.nth(2).getByText('One.').waitFor()
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).click()
    await messages.nth(2).getByText('2 / 2').waitFor()
    const { lines } = await exported(page)
    await page.getByRole('button', { name: 'New conversation' }).click()
    await messages.nth(1).waitFor({ state: 'detached' })
    await importText(page, lines.map((line) => JSON.stringify(line)).join('\n'))
    await page.getByText('4 messages').or(page.getByText('3 messages were imported.')).waitFor()
    await messages.nth(2).getByText('2 / 2').waitFor()
    await messages.nth(0).getByText('1 / 3').waitFor()
    expect((await exported(page)).lines.slice(1).map((line) => line['mes'])).toEqual(
      lines.slice(1).map((line) => line['mes']),
    )
    await say('And?')
    await messages.nth(4).getByText('Three.').waitFor()
    const told = toldLast(upstream).filter(({ role }) => role !== 'system')
    expect(told.filter(({ content }) => content.includes('Mind the hose'))).toHaveLength(1)
  })

  it('is read in the formats of older versions and other programs, with a notice of skipped lines', async () => {
    const { page, messages } = await talkToFern(pageBrowser, [says('One.')])
    const lines = [
      '\uFEFF{"user_name":"unused","character_name":"unused"}',
      '{"name":"Moss","is_user":false,"send_date":"October 1, 2024 2:13pm","mes":{"message":"Sit."},"swipes":[{"message":"Sit."},{"message":"Stand."}],"swipe_id":0}',
      '{"name":"Ada","is_user":true,"send_date":1727791980000,"mes":"Hello"}',
      '{"name":"Note","is_system":true,"mes":"hidden"}',
      'no JSON at all',
      '',
      '{"name":"Moss","is_user":false,"mes":"Yes.","swipes":"nonsense","swipe_id":99}',
    ]
    await importText(page, lines.join('\r\n'))
    await page.getByText('3 messages were imported.').waitFor()
    await page.getByText('2 lines of the file are no messages, and were left out.').waitFor()
    await page.getByText('The file is a conversation with Moss. Fern goes on with it.').waitFor()
    await messages.nth(0).getByText('Sit.').waitFor()
    await messages.nth(0).getByText('1 / 2').waitFor()
    await messages.nth(2).getByText('Yes.').waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await messages.nth(0).getByText('Mind the hose').waitFor()
  })

  it('shows the chosen text of a message, even if texts before it are unreadable', async () => {
    const { page, messages } = await talkToFern(pageBrowser, [says('One.')])
    const line = { name: 'Fern', is_user: false, swipes: [null, 'One.', 'Two.', { text: 'x' }, 'Three.'] }
    const lines = [
      { ...line, mes: 'Two.', swipe_id: 2 },
      { ...line, mes: 'Four.', swipe_id: 3 },
    ]
    await importText(page, lines.map((each) => JSON.stringify(each)).join('\n'))
    await messages.nth(1).getByText('Four.').waitFor()
    const read = (await exported(page)).lines.slice(1)
    expect(read.map(({ mes, swipe_id, swipes }) => ({ mes, swipe_id, swipes }))).toEqual([
      { mes: 'Two.', swipe_id: 1, swipes: ['One.', 'Two.', 'Three.'] },
      { mes: 'Four.', swipe_id: 2, swipes: ['One.', 'Two.', 'Four.', 'Three.'] },
    ])
  })

  it('has a notice when it is too large for the session storage', async () => {
    const { page, messages } = await talkToFern(pageBrowser, [says('One.')])
    await importText(page, JSON.stringify({ name: 'Ada', is_user: true, mes: 'word '.repeat(900_000) }))
    await page
      .getByRole('alert')
      .getByText(/too large for the browser to keep/)
      .waitFor()
    await expect.poll(() => messages.count()).toBe(1)
  })

  it.each([
    ['an empty file', ''],
    ['a picture', '\u0089PNG'],
    ['other JSON', '{"name":"Fern"}\n[1,2]\nnull'],
  ])('reports that %s is no conversation', async (_what, text) => {
    const { page } = await talkToFern(pageBrowser, [says('One.')])
    await importText(page, text)
    await page
      .getByRole('alert')
      .getByText(/This file has no message in it/)
      .waitFor()
  })
})
