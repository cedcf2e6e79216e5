import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { chatPage, gardener } from '../support/page/chat-page.ts'
import { hasShortTasks } from '../support/page/main-thread.ts'
import { browserForThisFile, phone } from '../support/page/page-browser.ts'
import { serviceForThisTest } from '../support/service.ts'
import { chunkText, type Script, sse, upstreamForThisTest } from '../support/upstream.ts'

const pageBrowser = browserForThisFile()

/** Resolves when an expression is true in the page. Locators would search all elements of the page each time. */
function until(page: Page, expression: string): Promise<unknown> {
  return page.evaluate(`new Promise((resolve) => {
    const look = () => (${expression} ? resolve() : setTimeout(look, 200))
    look()
  })`)
}

const isIdle = 'document.querySelector(".composer [type=submit]") && !document.querySelector("[aria-busy=true]")'
const paragraph =
  '*She* looks **up** from the `bench`, and [says](https://example.org) what there is to say of a fern, which is not little.\n\n'
const list = '- one that is short\n- one that is **longer** than the one before it\n\n'
const code = '```js\nconst pot = await lift("fern")\nwater(pot)\n```\n\n'

/** An upstream that streams a reply of some 100,000 tokens, each in its own event, as fast as the service reads. */
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

/** Opens the chat with Fern on a phone. @returns the page, and a function that requests the reply and waits for its end */
async function openChat(reply: string): Promise<{ readonly page: Page; readonly stream: () => Promise<void> }> {
  const upstream = await upstreamForThisTest(replyOf(reply))
  const service = await serviceForThisTest({}, gardener(upstream))
  const page = await pageBrowser.openPage(service, { viewport: phone, at: '#/chat/Fern' })
  const { messages, say } = chatPage(page, service, upstream)
  await messages.first().getByText('Mind the hose').waitFor()
  const stream = async () => {
    await say('At length!')
    await until(page, `document.querySelectorAll("article").length === 3 && ${isIdle}`)
  }
  return { page, stream }
}

it.each([
  ['of Markdown', `${paragraph.repeat(6)}${list.repeat(3)}${code}`.repeat(400)],
  ['that is one paragraph', 'word '.repeat(80_000)],
  ['that is one block of code', `\`\`\`js\n${'const a = 1 // the first\n'.repeat(16_000)}\`\`\`\n`],
  ['that is one list', '- one **bold** item of a list\n'.repeat(13_000)],
  ['that is one table', `| a | b |\n|---|---|\n${'| 1 | two |\n'.repeat(33_000)}`],
])(
  'has no task over 200 ms for a reply of 100,000 tokens %s',
  async (what, text) => {
    const { page, stream } = await openChat(text)
    await hasShortTasks(page, `${what}, streamed`, stream)
    const showing = async () => {
      await page.evaluate('location.hash = "#/account"')
      await until(page, '!document.querySelector(".chat")')
      await page.evaluate('location.hash = "#/chat"')
      await until(page, `document.querySelectorAll(".section").length > 15 && ${isIdle}`)
    }
    await hasShortTasks(page, `${what}, shown again`, showing)
    const scrolling = async () => {
      await page.mouse.move(200, 400)
      for (let turn = 0; turn < 10; turn++) {
        await page.mouse.wheel(0, -4000)
        await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
      }
    }
    await hasShortTasks(page, `${what}, scrolled`, scrolling)
  },
  240_000,
)

it('has no task over 200 ms for lines of nearly the maximum nesting', async () => {
  const { page, stream } = await openChat(`\`\`\`\n${`${'- '.repeat(15)}x\n`.repeat(700)}\`\`\`\n`)
  await hasShortTasks(page, 'nested lines', stream)
}, 120_000)

it('has no task over 200 ms for 20,000 characters', async () => {
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
  const page = await pageBrowser.openPage(service, { viewport: phone, at: '#/plants' })
  // Twenty thousand uploads would take minutes, so the test answers in place of the service.
  await page.route('**/characters?*', async (route) => {
    const query = new URL(route.request().url()).searchParams
    const after = query.get('after')
    const start = after === null ? 0 : Number(after.slice(-5)) + 1
    const data = characters.slice(start, start + Number(query.get('limit')))
    await route.fulfill({ json: { object: 'list', data, has_more: start + data.length < count } })
  })
  const hasText = (text: string) => `document.querySelector(".chat-gallery")?.textContent.includes("${text}")`
  const loading = async () => {
    await page.evaluate('location.hash = "#/chat"')
    await until(page, `${hasText('20,000 characters')} && !${hasText('more are coming')}`)
  }
  await hasShortTasks(page, '20,000 characters, loaded', loading)
  const search = page.getByLabel('Search by name or tag')
  const searching = async () => {
    await search.pressSequentially('odd 96')
    await until(page, hasText(' of 20,000 characters'))
  }
  await hasShortTasks(page, '20,000 characters, searched', searching)
  const scrolling = async () => {
    await search.fill('')
    await page.getByRole('list', { name: 'Characters' }).focus()
    await page.keyboard.press('End')
    await until(page, hasText('Character 19999'))
  }
  await hasShortTasks(page, '20,000 characters, scrolled', scrolling)
  expect(await page.getByRole('listitem').count()).toBeLessThan(80)
}, 120_000)
