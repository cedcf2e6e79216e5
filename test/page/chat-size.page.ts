import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { serviceForThisTest } from '../support/service.ts'
import { chunkText, type Script, sse, upstreamForThisTest } from '../support/upstream.ts'
import { chatPage, gardener } from './support/chat-page.ts'
import { phone, visitorForThisFile } from './support/visitor.ts'

const visitor = visitorForThisFile()

/** Milliseconds that no task of the main thread may take, on a CPU that is slowed down four times. */
const longest = 200

/** Slows the CPU down four times, and notes the long tasks from now on. */
async function slowDown(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page)
  await session.send('Emulation.setCPUThrottlingRate', { rate: 4 })
  await page.evaluate(`
    globalThis.longTasks = []
    new PerformanceObserver((list) => longTasks.push(...list.getEntries().map(({ duration }) => Math.round(duration)))).observe({ type: 'longtask' })
  `)
}

/** The long tasks since the last call, the longest first. */
async function longTasks(page: Page, what: string): Promise<readonly number[]> {
  const found = await page.evaluate<number[]>('longTasks.splice(0).sort((one, other) => other - one)')
  console.log(`${what}: ${found.length} tasks over 50 ms, the longest ${found.slice(0, 5).join(', ')} ms`)
  return found.filter((duration) => duration > longest)
}

const paragraph =
  '*She* looks **up** from the `bench`, and [says](https://example.org) what there is to say of a fern, which is not little.\n\n'
const list = '- one that is short\n- one that is **longer** than the one before it\n\n'
const code = '```js\nconst pot = await lift("fern")\nwater(pot)\n```\n\n'

/** A reply of some 100,000 tokens, each in an event of its own, as fast as it is read. */
function replyOf(text: string): Script {
  const tokens = text.match(/.{1,4}/gs) ?? []
  return async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let start = 0; start < tokens.length; start += 500) {
      const events = tokens.slice(start, start + 500).map((token) => chunkText({ content: token }))
      if (!response.write(sse(...events))) await new Promise((resolve) => response.once('drain', resolve))
      await new Promise((resolve) => setImmediate(resolve))
    }
    response.end(sse(chunkText({}, 'stop'), '[DONE]'))
  }
}

it.each([
  ['of Markdown', replyOf(`${paragraph.repeat(6)}${list.repeat(3)}${code}`.repeat(400))],
  ['that is one paragraph', replyOf('word '.repeat(80_000))],
  ['that is one block of code', replyOf(`\`\`\`js\n${'const a = 1 // the first\n'.repeat(16_000)}\`\`\`\n`)],
  ['that is one list', replyOf('- one **bold** item of a list\n'.repeat(13_000))],
  ['that is one table', replyOf(`| a | b |\n|---|---|\n${'| 1 | two |\n'.repeat(33_000)}`)],
])(
  'holds the page for no task over 200 ms with a reply of 100,000 tokens %s',
  async (what, script) => {
    const upstream = await upstreamForThisTest(script)
    const service = await serviceForThisTest({}, gardener(upstream))
    const page = await visitor.visit(service, { viewport: phone, at: '#/chat/Fern' })
    const { messages, say } = chatPage(page, service, upstream)
    await messages.first().getByText('Mind the hose').waitFor()
    await slowDown(page)
    await say('At length!')
    const started = Date.now()
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).waitFor({ timeout: 120_000 })
    console.log(`${what}: ${Date.now() - started} ms`)
    expect(await longTasks(page, `${what}, streamed`)).toEqual([])
    await page.getByRole('link', { name: 'Account' }).click()
    await page.getByRole('link', { name: 'Chat' }).click()
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).waitFor({ timeout: 60_000 })
    await messages.nth(2).locator('.section').nth(50).waitFor({ state: 'attached', timeout: 60_000 })
    expect(await longTasks(page, `${what}, shown again`)).toEqual([])
    await page.mouse.move(200, 400)
    for (let turn = 0; turn < 10; turn++) await page.mouse.wheel(0, -4000)
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
    expect(await longTasks(page, `${what}, scrolled`)).toEqual([])
  },
  240_000,
)

it('holds the page for no task over 200 ms with 20,000 characters', async () => {
  const count = 20_000
  const characters = Array.from({ length: count }, (_, index) => ({
    object: 'character',
    name: `Character ${String(index).padStart(5, '0')}`,
    origin: 'account',
    digest: `sha256:${index.toString(16).padStart(64, '0')}`,
    tags: ['botanist', 'plants', index % 2 ? 'odd' : 'even', `tag ${index % 97}`],
    creator: 'Conservatory',
    has_avatar: false,
  }))
  const service = await serviceForThisTest()
  const page = await visitor.visit(service, { viewport: phone, at: '#/plants' })
  // Twenty thousand uploads take minutes: the service's list is put in its place as it would say it.
  await page.route('**/characters?*', async (route) => {
    const query = new URL(route.request().url()).searchParams
    const after = query.get('after')
    const start = after === null ? 0 : Number(after.slice(-5)) + 1
    const data = characters.slice(start, start + Number(query.get('limit')))
    await route.fulfill({ json: { object: 'list', data, has_more: start + data.length < count } })
  })
  await slowDown(page)
  await page.getByRole('link', { name: 'Chat' }).click()
  const started = Date.now()
  await page.getByText('20,000 characters', { exact: true }).waitFor({ timeout: 60_000 })
  console.log(`20,000 characters are there after ${Date.now() - started} ms`)
  expect(await longTasks(page, 'loading')).toEqual([])
  const search = page.getByLabel('Search by name or tag')
  await search.pressSequentially('odd 96')
  await page.getByText(/^\d+ of 20,000 characters$/).waitFor()
  expect(await longTasks(page, 'searching')).toEqual([])
  await search.fill('')
  await page.getByText('20,000 characters', { exact: true }).waitFor()
  const items = page.getByRole('list', { name: 'Characters' })
  await items.focus()
  await page.keyboard.press('End')
  await page.getByRole('button', { name: /Character 19999/ }).waitFor()
  expect(await longTasks(page, 'scrolling')).toEqual([])
  expect(await page.getByRole('listitem').count()).toBeLessThan(80)
}, 120_000)
