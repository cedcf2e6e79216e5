import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cardChunk, png, zip } from '../support/containers.ts'
import { browserForThisFile } from '../support/page/page-browser.ts'
import { startTestService, type TestService, temporaryFolder } from '../support/service.ts'

const pageBrowser = browserForThisFile()
let service: TestService
let folder: ReturnType<typeof temporaryFolder>
/** The number of accounts so far. Each test makes its own accounts. */
let accounts = 0

beforeAll(async () => {
  folder = temporaryFolder()
  mkdirSync(join(folder.path, 'characters'))
  writeFileSync(join(folder.path, 'characters', 'mallow.json'), JSON.stringify(cardOf('Mallow')))
  service = await startTestService({ DATA_DIR: folder.path, CARD_BODY_LIMIT: '4000000' })
})

afterAll(async () => {
  await service.close()
  folder.remove()
})

function cardOf(name: string, more: object = {}) {
  const data = { name, description: 'Grows.', first_mes: 'Hello {{user}}.', tags: ['moss', 'old'], creator: 'Ann' }
  return { spec: 'chara_card_v3', spec_version: '3.0', data: { ...data, ...more } }
}

/** A file that the tests choose or drop. */
function fileOf(name: string, content: object | Buffer | string) {
  const buffer = Buffer.isBuffer(content)
    ? content
    : Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
  return { name, mimeType: '', buffer }
}

async function newKey(): Promise<string> {
  accounts += 1
  return await service.makeKey(`author ${accounts}`, ['chat', 'characters:write'])
}

function call(key: string, method: string, path: string, json?: object): Promise<Response> {
  return service.request(path, { method, headers: { authorization: `Bearer ${key}` }, ...(json ? { json } : {}) })
}

async function put(key: string, name: string, more: object = {}): Promise<void> {
  const reply = await call(key, 'PUT', `/characters/${encodeURIComponent(name)}`, cardOf(name, more))
  expect(reply.status).toBe(201)
}

async function statusOf(key: string, name: string): Promise<number> {
  return (await call(key, 'GET', `/characters/${encodeURIComponent(name)}`)).status
}

/** The entry of a file in the list of imports. */
const itemOf = (page: Page, file: string) => page.getByRole('article', { name: file })
const characterLink = (page: Page, name: string) =>
  page.getByRole('list', { name: 'Characters' }).locator('.name').filter({ hasText: name })
const choose = (page: Page, ...files: ReturnType<typeof fileOf>[]) => page.getByLabel('Card files').setInputFiles(files)

/** Drags files over the page, or drops them. @param event the type of the event, such as `dragover` */
async function drag(page: Page, event: string, files: readonly ReturnType<typeof fileOf>[]): Promise<void> {
  const contents = files.map(({ name, buffer }) => ({ name, text: buffer.toString('latin1') }))
  await page.evaluate(`{
    const data = new DataTransfer()
    for (const { name, text } of ${JSON.stringify(contents)}) {
      data.items.add(new File([Uint8Array.from(text, (letter) => letter.charCodeAt(0))], name))
    }
    document.querySelector('main').dispatchEvent(
      new DragEvent(${JSON.stringify(event)}, { dataTransfer: data, bubbles: true, cancelable: true }),
    )
  }`)
}

describe('the list of characters', () => {
  it('finds by name, tag, creator and origin', async () => {
    const key = await newKey()
    await put(key, 'Moss')
    await put(key, 'Lichen', { tags: ['grey'], creator: 'Bob' })
    const page = await pageBrowser.openPage(service, { key, at: '#/characters' })
    await page.getByText('7 characters').waitFor()
    const names = page.locator('.gallery .name')
    expect(await names.allTextContents()).toEqual([
      'Bolt',
      'Captain Vesper',
      'Fern',
      'Lichen',
      'Mallow',
      'Moss',
      'Tolliver',
    ])
    const search = page.getByLabel('Search characters')
    for (const [words, found] of [
      ['MOS', ['Mallow', 'Moss']],
      ['bob grey', ['Lichen']],
      ['bob moss', []],
    ] as const) {
      await search.fill(words)
      expect(await names.allTextContents()).toEqual(found)
    }
    await page.getByText('No character is like this.').waitFor()
    await search.fill('')
    await page.getByLabel('Whose characters').selectOption('Yours')
    expect(await names.allTextContents()).toEqual(['Lichen', 'Moss'])
    await page.getByText('2 of 7').waitFor()
  })

  it('works with the keyboard, and gives the focus back to the same character', async () => {
    const key = await newKey()
    await put(key, 'Moss', { alternate_greetings: ['Another.'], creator_notes: 'Be kind.' })
    const page = await pageBrowser.openPage(service, { key, at: '#/characters' })
    await characterLink(page, 'Moss').waitFor()
    await page.getByLabel('Whose characters').focus()
    const link = page.locator('a.card:focus', { has: page.locator('.name', { hasText: 'Moss' }) })
    for (let step = 0; (await link.count()) === 0; step += 1) {
      expect(step).toBeLessThan(10)
      await page.keyboard.press('Tab')
    }
    await page.keyboard.press('Enter')
    await page.locator('.long-text').getByText('Hello User.').first().waitFor()
    await page.locator('h2:focus', { hasText: 'Moss' }).waitFor()
    const pane = page.getByRole('region', { name: 'Moss' })
    for (const text of ['2 greetings', 'Another.', 'Be kind.', 'All of the card is used.', 'by Ann']) {
      expect(await pane.getByText(text).count()).toBeGreaterThan(0)
    }
    const chat = pane.getByRole('link', { name: 'Chat with Moss' })
    expect(await chat.getAttribute('href')).toBe('#/chat/Moss')
    await pane.getByRole('link', { name: 'All characters' }).click()
    await link.waitFor()
    await characterLink(page, 'Moss').click()
    await pane.getByRole('button', { name: 'old' }).click()
    expect(await page.getByLabel('Search characters').inputValue()).toBe('old')
  })

  it('shows only the allowed parts of an operator’s card', async () => {
    const page = await pageBrowser.openPage(service, { key: await newKey(), at: '#/characters/Mallow' })
    await page.getByText('The card is the operator’s own').waitFor()
    expect(await page.getByRole('button', { name: /Export|Delete/ }).count()).toBe(0)
    const owner = await pageBrowser.openPage(service, { at: '#/characters/Mallow' })
    await owner.getByRole('button', { name: 'Export' }).waitFor()
    expect(await owner.getByRole('button', { name: 'Delete' }).count()).toBe(0)
  })

  it('offers only actions that the scopes of the key allow', async () => {
    const key = await service.makeKey('guest', ['chat'])
    const page = await pageBrowser.openPage(service, { key, at: '#/characters//import' })
    await characterLink(page, 'Fern').waitFor()
    expect(await page.getByText(/Import/).count()).toBe(0)
    await drag(page, 'dragover', [fileOf('moss.json', cardOf('Moss'))])
    await drag(page, 'drop', [fileOf('moss.json', cardOf('Moss'))])
    expect(await page.getByText('moss.json').count()).toBe(0)
    const writer = await service.makeKey('writer', ['characters:write'])
    const other = await pageBrowser.openPage(service, { key: writer, at: '#/characters/Fern' })
    await other.getByRole('button', { name: 'Export' }).waitFor()
    expect(await other.getByRole('link', { name: /Chat with|What a model/ }).count()).toBe(0)
  })

  it('shows why it could not be loaded, and tries again', async () => {
    const key = await newKey()
    await put(key, 'Private moss')
    const page = await pageBrowser.openPage(service, { key, expected: [/ERR_FAILED/] })
    await page.route('**/characters?*', (route) => route.abort())
    await page.goto(`${service.url}/#/characters`)
    await page.reload()
    expect(await page.getByRole('alert').textContent()).toContain('The service does not answer.')
    await page.unroute('**/characters?*')
    await page.getByRole('button', { name: 'Try again' }).click()
    await characterLink(page, 'Private moss').waitFor()
  })
})

describe('importing cards', () => {
  it('shows the content of a card before it is stored', async () => {
    const key = await newKey()
    const page = await pageBrowser.openPage(service, { key, at: '#/characters' })
    await page.getByRole('link', { name: 'Import cards' }).click()
    const entries = [
      { keys: [], content: 'x' },
      { keys: ['/(?=a)/'], content: 'x' },
    ]
    const more = { character_book: { entries }, alternate_greetings: 'x', new_field: 1 }
    await choose(page, fileOf('moss.json', cardOf('Moss', more)))
    const item = itemOf(page, 'moss.json')
    await item.getByRole('button', { name: 'Import', exact: true }).waitFor()
    for (const text of [
      ...['Card V3 · 2 greetings · 2 lore entries', 'entries[0]: no keys, and not constant', '/(?=a)/', 'new_field'],
      'alternate_greetings is a text and is taken as a single greeting. Write a list of texts.',
    ]) {
      expect(await item.getByText(text).count(), text).toBeGreaterThan(0)
    }
    expect(await statusOf(key, 'Moss')).toBe(404)
    await item.getByRole('button', { name: 'Import', exact: true }).focus()
    await page.keyboard.press('Enter')
    await item.getByText('Imported').waitFor()
    expect(await statusOf(key, 'Moss')).toBe(200)
    await characterLink(page, 'Moss').waitFor()
    await item.getByRole('link', { name: 'What a model is told' }).click()
    await page.getByLabel('Your first message').waitFor()
  })

  it('accepts dropped cards in several formats, and shows the faults of other files', async () => {
    const key = await newKey()
    const page = await pageBrowser.openPage(service, { key, at: '#/characters', expected: [/400/] })
    await characterLink(page, 'Fern').waitFor()
    const files = [
      fileOf('one.png', png(cardChunk('ccv3', cardOf('One')))),
      fileOf('two.charx', zip([{ name: 'card.json', content: JSON.stringify(cardOf('Two')) }])),
      fileOf('three.txt', 'no card'),
      fileOf('empty.json', ''),
    ]
    await drag(page, 'dragenter', files)
    await page.getByText('Drop cards to see what they are').waitFor()
    await drag(page, 'dragleave', files)
    await page.getByText('Drop cards to see what they are').waitFor({ state: 'detached' })
    await drag(page, 'dragover', files)
    await drag(page, 'drop', files)
    await itemOf(page, 'three.txt').getByText('This is not a character card').waitFor()
    await itemOf(page, 'three.txt').getByRole('button', { name: 'Put it away' }).click()
    await itemOf(page, 'empty.json').getByText('This file is empty.').waitFor()
    await page.getByRole('button', { name: 'Import all 2 that are new' }).click()
    await itemOf(page, 'two.charx').getByText('Imported').waitFor()
    await characterLink(page, 'One').waitFor()
    expect(await page.getByRole('img').or(page.locator('img.portrait')).count()).toBe(1)
    await page.getByRole('button', { name: 'Put away what is imported' }).click()
    expect(await page.getByRole('article').count()).toBe(1)
  })

  it('asks before it replaces a character, and accepts another name', async () => {
    const key = await newKey()
    await put(key, 'Moss')
    const page = await pageBrowser.openPage(service, { key, at: '#/characters//import' })
    await choose(page, fileOf('same.json', cardOf('Moss')), fileOf('new.json', cardOf('Moss', { first_mes: 'New.' })))
    await itemOf(page, 'same.json').getByText('You have exactly this card already.').waitFor()
    const item = itemOf(page, 'new.json')
    await item.getByText('You have a character of this name already').waitFor()
    expect(await page.getByRole('button', { name: /Import all|^Import$/ }).count()).toBe(0)
    await item.getByRole('button', { name: 'Under another name' }).click()
    await item.getByLabel('Its name here').fill('Moss the second')
    await item.getByRole('button', { name: 'Import', exact: true }).click()
    await item.getByText('Imported').waitFor()
    expect(await statusOf(key, 'Moss the second')).toBe(200)
    await choose(page, fileOf('newest.json', cardOf('Moss', { first_mes: 'Newest.' })))
    await itemOf(page, 'newest.json').getByRole('button', { name: 'Replace “Moss”' }).click()
    await itemOf(page, 'newest.json').getByText('Imported').waitFor()
    await itemOf(page, 'newest.json').getByRole('link', { name: 'Look at it' }).click()
    await page.locator('.long-text').getByText('Newest.').waitFor()
  })

  it('takes a name with spaces around it for the same name, as the service does', async () => {
    const key = await newKey()
    await put(key, 'Moss', { first_mes: 'Kept.' })
    const page = await pageBrowser.openPage(service, { key, at: '#/characters//import' })
    const files = ['one', 'two', 'three', 'four'].map((name) => fileOf(`${name}.json`, cardOf(name)))
    await choose(page, ...files)
    for (const [file, name] of [
      ['one.json', ' Moss '],
      ['two.json', ' '],
    ] as const) {
      await itemOf(page, file).getByRole('button', { name: 'Under another name' }).click()
      await itemOf(page, file).getByLabel('Its name here').fill(name)
    }
    await page.getByRole('button', { name: /^Import all/ }).click()
    await itemOf(page, 'three.json').getByText('Imported').waitFor()
    await itemOf(page, 'four.json').getByText('Imported').waitFor()
    expect(await itemOf(page, 'one.json').getByRole('button', { name: 'Replace “Moss”' }).count()).toBe(1)
    expect(await itemOf(page, 'two.json').getByRole('button', { name: 'Import', exact: true }).isDisabled()).toBe(true)
    expect(await (await call(key, 'GET', '/characters/Moss')).text()).toContain('Kept.')
  })

  it('asks before it replaces a character whose name was taken meanwhile, and reports a starter of the same name', async () => {
    const key = await newKey()
    const page = await pageBrowser.openPage(service, { key, at: '#/characters//import', expected: [/409/] })
    await choose(page, fileOf('moss.json', cardOf('Moss')), fileOf('fern.json', cardOf('Fern')))
    await itemOf(page, 'fern.json').getByText('It stands before the starter of this name').waitFor()
    await put(key, 'Moss', { first_mes: 'First.' })
    await itemOf(page, 'moss.json').getByRole('button', { name: 'Import', exact: true }).click()
    await itemOf(page, 'moss.json').getByRole('button', { name: 'Replace “Moss”' }).click()
    await itemOf(page, 'moss.json').getByText('Imported').waitFor()
  })

  it('shows the fault of a file, and continues', async () => {
    const key = await newKey()
    const page = await pageBrowser.openPage(service, { key, at: '#/characters//import', expected: [/413|ERR_FAILED/] })
    await choose(page, fileOf('large.json', Buffer.alloc(4_000_001, 'x')))
    await itemOf(page, 'large.json').getByText('This file is larger than the service takes').waitFor()
    await page.route('**/characters?dry_run=true', (route) => route.abort())
    await choose(page, fileOf('moss.json', cardOf('Moss')))
    const item = itemOf(page, 'moss.json')
    await item.getByText('The service does not answer.').waitFor()
    await page.unroute('**/characters?dry_run=true')
    await item.getByRole('button', { name: 'Try again' }).click()
    await item.getByRole('button', { name: 'Import', exact: true }).waitFor()
    // The files stay in the list of imports while another view is shown.
    await page.getByRole('link', { name: 'Account' }).click()
    await page.getByRole('link', { name: 'Characters', exact: true }).click()
    await page.getByRole('link', { name: 'Import cards (2)' }).click()
    await item.getByRole('button', { name: 'Do not import' }).click()
    expect(await item.count()).toBe(0)
  })

  it('shows the progress of a large file', async () => {
    const key = await newKey()
    const page = await pageBrowser.openPage(service, { key, at: '#/characters//import' })
    const devTools = await page.context().newCDPSession(page)
    await devTools.send('Network.emulateNetworkConditions', {
      ...{ offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 1_000_000 },
    })
    await choose(page, fileOf('large.json', cardOf('Large', { extensions: { x: 'x'.repeat(2_000_000) } })))
    await page.getByRole('progressbar', { name: 'Sending large.json' }).waitFor()
    await page.locator('.import progress[value^="0."]').waitFor()
    await itemOf(page, 'large.json').getByRole('button', { name: 'Put away' }).click()
    expect(await page.getByRole('article').count()).toBe(0)
  })
})

describe('exporting and deleting cards', () => {
  it('exports a card in each format, and names the parts that the format loses', async () => {
    const key = await newKey()
    const added = await service.request('/characters', {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'image/png' },
      body: new Uint8Array(png(cardChunk('ccv3', cardOf('Moss: a "friend"')))),
    })
    expect(added.status).toBe(201)
    const page = await pageBrowser.openPage(service, { key, at: '#/characters' })
    await characterLink(page, 'Moss').click()
    for (const [format, extension] of [
      ['json', 'json'],
      ['v2', 'json'],
      ['png', 'png'],
      ['charx', 'charx'],
    ] as const) {
      await page.getByLabel('Format').selectOption(format)
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: 'Export' }).click(),
      ])
      expect(download.suggestedFilename()).toBe(`Moss_ a _friend_.${extension}`)
      const name = encodeURIComponent('Moss: a "friend"')
      const expected = await call(key, 'GET', `/characters/${name}?format=${format}`)
      expect(readFileSync(await download.path()).equals(Buffer.from(await expected.arrayBuffer()))).toBe(true)
    }
    await page.getByText('Saved. The picture of the card is not in this format.').first().waitFor()
  })

  it('deletes a card after a confirmation', async () => {
    const key = await newKey()
    await put(key, 'Moss')
    await put(key, 'Fern')
    const page = await pageBrowser.openPage(service, { key, at: '#/characters/Moss' })
    await page.getByRole('button', { name: 'Delete' }).click()
    const dialog = page.getByRole('dialog', { name: 'Delete “Moss”?' })
    await dialog.getByRole('button', { name: 'Keep it' }).click()
    expect(await statusOf(key, 'Moss')).toBe(200)
    await page.locator('button:focus', { hasText: 'Delete' }).waitFor()
    await page.keyboard.press('Enter')
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByText('“Moss” is deleted.').waitFor()
    expect(await statusOf(key, 'Moss')).toBe(404)
    await characterLink(page, 'Moss').waitFor({ state: 'detached' })
    // Deleting the uploaded Fern shows the starter of this name again.
    await characterLink(page, 'Fern').click()
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await characterLink(page, 'Fern').click()
    await page.locator('.origin', { hasText: 'starter' }).waitFor()
  })
})

describe('hostile cards', () => {
  const script = '<script>document.title="run"</script><img src=x onerror="document.title=`run`">'
  const word = 'x'.repeat(1_000_000)
  const names = [
    `Evil ${script}`,
    '..',
    '.',
    'a/b?c#d%2e',
    '\u202eesrever\u2066',
    'שלום עולם',
    'constructor',
    'import',
    '😀'.repeat(30),
  ]

  it('are shown as text', async () => {
    const key = await newKey()
    const tags = [script, word, 'a\u0007b', 'c']
    const page = await pageBrowser.openPage(service, { key, at: '#/characters//import' })
    const more = {
      tags,
      creator: script,
      creator_notes: `${script}\u0007\u0000${word}`,
      first_mes: `${script}${word}`,
      [script]: 1,
    }
    await choose(
      page,
      ...names.map((name, index) => fileOf(`${index} ${script}\u202e.json`, cardOf(name, index === 0 ? more : {}))),
    )
    await page.getByRole('button', { name: `Import all ${names.length} that are new` }).click()
    for (const index of names.keys()) {
      await page
        .getByRole('article', { name: new RegExp(`^${index} `) })
        .getByText('Imported')
        .waitFor()
    }
    expect(await page.getByText(`${names.length + 5} characters`).count()).toBe(1)
    for (const name of names) {
      expect(await statusOf(key, /^\.\.?$/.test(name) ? `${name} ` : name)).toBe(200)
      await page.locator('.gallery .name').getByText(name, { exact: true }).click()
      const heading = page.getByRole('heading', { level: 2 })
      await page.getByRole('button', { name: 'Delete' }).waitFor()
      await expect.poll(() => heading.textContent()).toBe(name)
    }
    await characterLink(page, 'Evil').click()
    const pane = page.getByRole('region', { name: 'Evil' })
    await pane.getByText(`${script}␇`).waitFor()
    expect((await pane.textContent())?.length).toBeLessThan(30_000)
    await pane.getByRole('button', { name: 'Show more of the greeting' }).click()
    expect(await page.title()).not.toContain('run')
    for (const name of names) {
      await page.locator('.gallery .name').getByText(name, { exact: true }).click()
      await page.getByRole('button', { name: 'Delete' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      expect(await statusOf(key, /^\.\.?$/.test(name) ? `${name} ` : name)).toBe(404)
    }
  })
})
