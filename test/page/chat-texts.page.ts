import { describe, expect, it } from 'vitest'
import { breaksOff, gardener, says, talkToFern } from '../support/page/chat-page.ts'
import { barriersOf, browserForThisFile, desktop, phone } from '../support/page/page-browser.ts'
import { serviceForThisTest } from '../support/service.ts'
import { pieces, streamOf, upstreamForThisTest } from '../support/upstream.ts'

const pageBrowser = browserForThisFile()

const hostile = [
  '<script>throw new Error("run")</script>',
  '<img src="https://elsewhere.example/x.png" onerror="throw new Error(1)">',
  '[click](javascript:alert(1)) and [data](data:text/html,x) and <javascript:alert(2)> and [file](file:///etc/passwd)',
  '![pixel](https://elsewhere.example/pixel.png) and ![script](javascript:alert(3))',
  '[good](https://example.org/path?q=1) and www.example.org and https://example.org/auto',
  '&lt;b&gt; &#x3c;i&#62; &#0; &#xD800; &unknown; &constructor; &amp;amp;',
  '\u202Eright to left\u202C \u0000\u0007\u001B[31m\u200B',
  'שלום עולם, this is a test.',
  `${'> '.repeat(3000)}deep`,
  `${'- '.repeat(500)}deep`,
  `${'['.repeat(4000)}`,
  `${'**a*'.repeat(2000)}`,
].join('\n\n')

const goodLinks = [
  'https://elsewhere.example/pixel.png',
  'https://example.org/path?q=1',
  'http://www.example.org/',
  'https://example.org/auto',
]

describe('Markdown', () => {
  it('shows hostile texts as text, allows only http(s) links, and fetches no picture', async () => {
    const { messages, say } = await talkToFern(pageBrowser, [says(hostile)])
    await say(hostile)
    const reply = messages.nth(2)
    await reply.getByRole('button', { name: 'Regenerate' }).waitFor()
    for (const message of [messages.nth(1), reply]) {
      // Text out of sight is not laid out, so it is attached but not visible.
      await message.getByText('<script>throw new Error("run")</script>').waitFor({ state: 'attached' })
      await message.getByText('[click](javascript:alert(1))').waitFor({ state: 'attached' })
      // A text is shown over several frames.
      await expect.poll(() => message.locator('a').count()).toBe(goodLinks.length)
      const links = await message.locator('a').all()
      const attributes = ['href', 'target', 'rel']
      const found = await Promise.all(
        links.map((link) => Promise.all(attributes.map((attribute) => link.getAttribute(attribute)))),
      )
      expect(found).toEqual(goodLinks.map((address) => [address, '_blank', 'noopener noreferrer']))
      expect(await message.locator('img, script, iframe, i, b').count()).toBe(0)
      expect(await message.textContent()).toContain('<b> <i> \uFFFD \uFFFD &unknown; &constructor; &amp;')
    }
  })

  it('looks the same whether it arrives in words or letter by letter', async () => {
    const text =
      '# Care\n\n*She* nods. **Lift** `it`:\n\n1. one\n2. two\n   - dry\n\n> Wait.\n\n```js\nconst a = 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] done\n- [ ] open\n\nEnd\nof it. ~~gone~~'
    const letters = pieces(streamOf([...text].join('\u0001')).map((event) => event.replaceAll('\\u0001', '')))
    const { messages, say } = await talkToFern(pageBrowser, [says(text), letters])
    await say('One')
    await messages.nth(2).getByText('of it.').waitFor()
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).waitFor()
    await say('Two')
    await messages.nth(4).getByText('of it.').waitFor()
    await messages.nth(4).getByRole('button', { name: 'Regenerate' }).waitFor()
    const html = (index: number) => messages.nth(index).locator('.markdown').innerHTML()
    expect(await html(4)).toBe(await html(2))
    for (const element of ['h3', 'em', 'strong', 'ol > li', 'ul > li', 'blockquote', 'pre', 'td', 'del', 'br']) {
      expect([element, await messages.nth(2).locator(`.markdown ${element}`).count()]).not.toEqual([element, 0])
    }
  })

  it('shows a word of a megabyte', async () => {
    const { messages, say } = await talkToFern(pageBrowser, [says('x'.repeat(1_000_000))])
    await say('Long!')
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).waitFor()
    await messages.nth(2).locator('.section').nth(100).waitFor({ state: 'attached' })
    expect(await messages.nth(2).locator('.section').count()).toBeLessThan(400)
  })
})

it('shows hostile names and notes as text', async () => {
  const upstream = await upstreamForThisTest(says('Yes.'))
  const service = await serviceForThisTest({}, gardener(upstream))
  const name = '<script>alert(1)</script> \u202Eאב ' + '{{char}}'
  const card = {
    name,
    first_mes: '<img src=x onerror=alert(1)> [x](javascript:alert(1))',
    description: 'x',
    tags: ['<b>tag</b>', 'y'.repeat(5000)],
    creator_notes: `<script>alert(1)</script>${'z'.repeat(100_000)}`,
    creator: '<i>',
  }
  await service.request('/characters', { json: card })
  const page = await pageBrowser.openPage(service)
  await page.getByRole('button', { name: /<script>/ }).click()
  await page.getByText('<img src=x onerror=alert(1)>', { exact: false }).waitFor()
  await page.getByText('Notes by the creator').click()
  const box = page.getByRole('textbox', { name: /^Message to/ })
  await box.fill('Hello')
  await box.press('Enter')
  await page.getByRole('article').nth(2).getByText('Yes.').waitFor()
  await page.reload()
  await page.getByRole('article').nth(2).getByText('Yes.').waitFor()
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
})

it('talks to a character whose name a browser would resolve as a folder', async () => {
  const service = await serviceForThisTest()
  await service.request('/characters', { json: { name: '..', first_mes: 'Up here.' } })
  const page = await pageBrowser.openPage(service, { at: '#/chat/..' })
  await page.getByRole('article').getByText('Up here.').waitFor()
})

describe.each([
  ['light', desktop],
  ['dark', desktop],
  ['light', phone],
  ['dark', phone],
] as const)('the chat in %s at %o', (colorScheme, viewport) => {
  it('has no barriers', async () => {
    const rich =
      '# Care\n\n*She* **nods** `so`. [docs](https://example.org)\n\n```js\nconst a = 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n> Wait.'
    const { page, messages, say } = await talkToFern(pageBrowser, [says(rich), breaksOff('Once')], {
      colorScheme,
      viewport,
    })
    const found: (readonly string[])[] = []
    await page.getByText('Notes by the creator').click()
    found.push(await barriersOf(page))
    await page.getByRole('button', { name: 'Characters' }).click()
    await page.getByRole('dialog').getByRole('listitem').nth(3).waitFor()
    found.push(await barriersOf(page))
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByRole('dialog').getByLabel('Your name').waitFor()
    found.push(await barriersOf(page))
    await page.keyboard.press('Escape')
    await say('Hello!')
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).waitFor()
    await say('A story!')
    await page.getByRole('button', { name: 'Continue' }).waitFor()
    await messages.nth(3).getByRole('button', { name: 'Edit' }).click()
    found.push(await barriersOf(page))
    expect(found.flat()).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
  })
})
