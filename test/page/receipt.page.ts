import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PromptReceipt } from '../../src/chat/receipt.ts'
import { browserForThisFile } from '../support/page/page-browser.ts'
import { openReceipt } from '../support/page/receipts.ts'
import { onceAsked, startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import { completion, json, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

const pageBrowser = browserForThisFile()
let upstream: ScriptedUpstream
let service: TestService
let folder: ReturnType<typeof temporaryFolder>

const entry = (name: string, keys: readonly string[], more: object = {}) => ({
  ...{ name, keys, content: `All about ${name}.`, enabled: true, insertion_order: 1, extensions: {} },
  ...more,
})
const cardOf = (name: string, more: object = {}) => ({
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: {
    name,
    description: '{{char}} waits for {{user}}. {{nonsense}}',
    personality: 'Calm',
    first_mes: 'Hello {{user}}.',
    system_prompt: 'You are {{char}}.',
    character_book: {
      name: 'Walls',
      entries: [
        entry('North wall', ['wall', 'brick']),
        entry('Creed', [], { constant: true }),
        entry('Luck', ['wall'], { extensions: { probability: 0, useProbability: true } }),
        entry('Sea', ['sea']),
      ],
    },
    ...more,
  },
})

beforeAll(async () => {
  folder = temporaryFolder()
  mkdirSync(join(folder.path, 'characters'))
  writeFileSync(join(folder.path, 'characters', 'mallow.json'), JSON.stringify(cardOf('Mallow')))
  upstream = await startUpstream(json(completion('Yes.')))
  service = await startTestService({ DATA_DIR: folder.path }, onceAsked(upstream.url))
  await put('Moss', cardOf('Moss'))
})

afterAll(async () => {
  await service.close()
  await upstream.close()
  folder.remove()
})

async function put(name: string, card: object): Promise<void> {
  const reply = await service.request(`/characters/${encodeURIComponent(name)}`, { method: 'PUT', json: card })
  expect(reply.status).toBeLessThan(300)
}

/** Sends a chat request. @returns its id, with which the page opens its receipt */
async function chat(body: object): Promise<string> {
  const reply = await service.request('/chat/completions', { json: body })
  await reply.text()
  return reply.headers.get('x-request-id') ?? ''
}

async function promptOf(body: object): Promise<PromptReceipt> {
  return JSON.parse(await (await service.request('/chat/prompt', { json: body })).text())
}

const bodyOf = (character: string, content = 'Is that a wall?', model = 'understudy') => ({
  ...{ model, character, messages: [{ role: 'user', content }] },
})

describe('the prompt of a character', () => {
  it('is shown to a card author before a request is sent', async () => {
    const page = await pageBrowser.openPage(service, { at: '#/characters/Moss' })
    await page.getByRole('link', { name: 'What a model is told' }).click()
    await page.getByLabel('Your first message').fill('Is that a wall?')
    await page.getByRole('option', { name: '1: Hello User.' }).waitFor({ state: 'attached' })
    await page.getByRole('button', { name: 'Show what it is told' }).focus()
    await page.keyboard.press('Enter')
    const expected = await promptOf({ ...bodyOf('Moss', undefined, 'default'), greeting: 0 })
    const total = page.getByRole('row', { name: 'All of it' })
    expect(await total.textContent()).toBe(`All of it${expected.tokens.total}100%`)
    const table = page.getByRole('table').filter({ has: total })
    const rest = expected.tokens.total - expected.tokens.sections.reduce((sum, { tokens }) => sum + tokens, 0)
    const figures = await table.locator('tbody td:nth-child(2)').allTextContents()
    expect(figures).toEqual([...expected.tokens.sections.map(({ tokens }) => String(tokens)), String(rest)])
    expect(await page.getByRole('img', { name: /^Tokens by section: System prompt \d+, Description/ }).count()).toBe(1)
    expect(await table.getByRole('rowheader').allTextContents()).toEqual([
      ...['System prompt', 'Description', 'Personality', 'Lore after the character', 'Greeting', 'Conversation'],
      ...['Between the messages', 'All of it'],
    ])
    const lore = page.getByRole('table').filter({ hasText: 'Entry' })
    expect(await lore.getByRole('row', { name: 'North wall' }).textContent()).toMatch(/In the prompt.*Found by.*wall/s)
    expect(await lore.getByRole('row', { name: 'Creed' }).textContent()).toContain('It needs no key.')
    expect(await lore.getByRole('row', { name: 'Luck' }).textContent()).toMatch(/Left out: its probability/)
    expect(await lore.getByRole('row').count()).toBe(4)
    expect(await page.getByText('{{nonsense}}', { exact: true }).count()).toBe(1)
    expect(await page.getByText('Unknown macros, which stand in the prompt as they are written:').count()).toBe(1)
    await page.locator('summary', { hasText: 'You are Moss.' }).focus()
    await page.keyboard.press('Enter')
    const text = await page.getByRole('region', { name: 'The system message' }).textContent()
    expect(text).toBe(expected.messages[0]?.content)
    expect(await page.getByText('No model was asked.').count()).toBe(1)
  })
})

describe('the receipt of a reply', () => {
  it('shows the record of the ledger, and closes with Escape', async () => {
    const body = { ...bodyOf('Moss'), stream: true, stream_options: { include_usage: true } }
    const id = await chat(body)
    const page = await pageBrowser.openPage(service, { at: '#/characters' })
    await openReceipt(page, body, id)
    const dialog = page.getByRole('dialog', { name: 'What the model was told' })
    await dialog.getByText('The model answered to the end.').waitFor()
    const record = JSON.parse(await (await service.request(`/requests/${id}`)).text())
    const facts = await dialog.locator('.facts').textContent()
    expect(facts).toContain(`${record.prompt_tokens} of the prompt, ${record.completion_tokens} of the answer`)
    expect(facts).toContain('counted by the model')
    await dialog.getByText(id, { exact: true }).waitFor()
    expect(await dialog.getByText('composed again now').count()).toBe(1)
    expect(await dialog.getByText('not quite what was sent').count()).toBe(0)
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await page.waitForFunction("document.title === 'closed'")
  })

  it('names known differences from the sent prompt', async () => {
    await put('Changing', cardOf('Changing'))
    const body = bodyOf('Changing')
    const id = await chat(body)
    await put('Changing', cardOf('Changing', { description: 'Another, and much longer than it was before.' }))
    const page = await pageBrowser.openPage(service, { at: '#/characters' })
    await openReceipt(page, body, id)
    await page.getByText('The card has been changed since').waitFor()
    expect(await page.getByText(/^The model has read \d+ tokens, and this has \d+\.$/).count()).toBe(1)
  })

  it('says that a server has cut the prompt', async () => {
    const body = bodyOf('Moss', 'A wall of words. '.repeat(1000), 'some-model')
    const id = await chat(body)
    const page = await pageBrowser.openPage(service, { at: '#/characters' })
    await openReceipt(page, body, id)
    await page.getByText(/server read 11 tokens of a prompt that has about [\d,]+: it has cut it/).waitFor()
    expect(await page.getByText('has a tokenizer of its own').count()).toBe(1)
  })

  it('shows the prompt of a request without a record in the ledger', async () => {
    const page = await pageBrowser.openPage(service, { at: '#/characters', expected: [/404/] })
    await openReceipt(page, bodyOf('Moss'), 'req_unknown')
    await page.getByText('The ledger has nothing of this request any more.').waitFor()
    await page.getByText('The exact messages').waitFor()
  })

  it('shows a failure, and tries again', async () => {
    const page = await pageBrowser.openPage(service, { at: '#/characters', expected: [/404|ERR_FAILED/] })
    await page.route('**/chat/prompt', (route) => route.abort())
    await openReceipt(page, bodyOf('Moss'), null)
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByRole('alert').textContent()).toContain('The service does not answer.')
    await page.unroute('**/chat/prompt')
    await dialog.getByRole('button', { name: 'Try again' }).click()
    await dialog.getByText('The exact messages').waitFor()
    await page.keyboard.press('Escape')
    await openReceipt(page, { ...bodyOf('Moss'), character: 'Moss@sha256:00000000' }, null)
    expect(await page.getByRole('alert').textContent()).toContain('There is no character of this name')
  })

  it('withholds the operator’s texts', async () => {
    const key = await service.makeKey('guest', ['chat'])
    const page = await pageBrowser.openPage(service, { key, at: '#/characters' })
    await openReceipt(page, bodyOf('Mallow'), null)
    await page.getByText('its keys are withheld').first().waitFor()
    await page.locator('.messages summary').first().click()
    await page.getByText('a key with the scope “admin” sees its text').waitFor()
    expect(await page.content()).not.toContain('waits for')
  })

  it('shows hostile texts as text, and long texts in portions', async () => {
    const script = '<script>document.title = "run"</script><img src=x onerror="document.title = `run`">'
    await put(
      'Evil',
      cardOf(`Evil ${script}`, { description: `${script}\u202e\u0007`, personality: 'x'.repeat(1_000_000) }),
    )
    const page = await pageBrowser.openPage(service, { at: '#/characters' })
    const messages = Array.from({ length: 300 }, (_, index) => ({ role: 'user', content: `${index} ${script}\u0007` }))
    await openReceipt(page, { ...bodyOf('Evil'), messages }, null)
    await page.locator('.messages summary').first().click()
    const region = page.getByRole('region', { name: 'The system message' })
    expect(await region.textContent()).toContain(`${script}\u202e`)
    expect((await region.textContent())?.length).toBeLessThan(10_000)
    await region.getByRole('button', { name: 'Show more' }).click()
    await region.getByText(/16,000 of/).waitFor()
    expect(await page.locator('.messages > li').count()).toBe(50)
    await page.getByRole('button', { name: /Show 50 more/ }).click()
    expect(await page.locator('.messages > li').count()).toBe(100)
    await page.locator('.messages summary').nth(10).click()
    expect(await page.getByRole('region', { name: 'The user message' }).textContent()).toContain(`${script}\u2407`)
    expect(await page.title()).toBe('Characters – Conservatory')
  })
})
