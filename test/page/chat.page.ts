import { describe, expect, it } from 'vitest'
import { begins, chatPage, gardener, says, talkToFern, toldLast } from '../support/page/chat-page.ts'
import { browserForThisFile } from '../support/page/page-browser.ts'
import { serviceForThisTest } from '../support/service.ts'
import { json, upstreamForThisTest } from '../support/upstream.ts'

const pageBrowser = browserForThisFile()

describe('choosing a character', () => {
  it('finds a character by name or tag, and opens it with the keyboard alone; Back returns to the list', async () => {
    const { page, box } = await talkToFern(pageBrowser, [says('Yes.')])
    expect(page.url()).toMatch(/#\/chat\/Fern$/)
    await page.getByRole('button', { name: 'Characters' }).press('Enter')
    const dialog = page.getByRole('dialog', { name: 'Characters' })
    await dialog.getByRole('listitem').nth(3).waitFor()
    await dialog.getByLabel('Search by name or tag').fill('LIGHTHOUSE gentle')
    expect(await dialog.getByRole('listitem').allTextContents()).toEqual([expect.stringContaining('Tolliver')])
    await dialog.getByRole('button', { name: /^Tolliver/ }).press('Enter')
    await page.getByLabel('Message to Tolliver').waitFor()
    expect(page.url()).toMatch(/#\/chat\/Tolliver$/)
    await page.goBack()
    await box.waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: 'Choose a character' }).waitFor()
    await page.goForward()
    await box.waitFor()
  })

  it('shows the character, and its greetings by buttons and keys; the model gets the shown greeting', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [says('Yes.')])
    await page.getByText('Notes by the creator').click()
    await page.getByText('The keeper of the glasshouse').waitFor()
    const greeting = messages.first()
    await greeting.getByRole('button', { name: 'Next greeting' }).click()
    await greeting.getByText('only her boots greet you').waitFor()
    await greeting.focus()
    await page.keyboard.press('ArrowRight')
    await greeting.getByText('It is after closing').waitFor()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowLeft')
    await greeting.getByText('only her boots greet you').waitFor()
    await say('Hello!')
    await messages.nth(2).getByText('Yes.').waitFor()
    expect(
      toldLast(upstream).filter(({ role, content }) => role === 'assistant' && content.includes('boots')),
    ).toHaveLength(1)
  })

  it('says of a reply that its character has no card', async () => {
    const { page, messages, say } = await talkToFern(pageBrowser, [says('Yes.'), says('I am nobody.')], {
      expected: [/404/],
    })
    await say('Hello!')
    await messages.nth(2).getByText('Yes.').waitFor()
    expect(await page.getByText('no card').count()).toBe(0)
    await page.goto(`${page.url().split('#')[0]}#/chat/Nobody`)
    await page.getByLabel('Message to Nobody').fill('Hello!')
    await page.keyboard.press('Enter')
    await page.getByText('I am nobody.', { exact: true }).waitFor()
    await page.getByText('· no card').waitFor()
  })

  it('follows the address, and offers other characters if the character of the address does not exist', async () => {
    const { page } = await talkToFern(pageBrowser, [says('Yes.')], { expected: [/404/] })
    await page.goto(`${page.url().split('#')[0]}#/chat/Nobody%20at%20all`)
    await page
      .getByRole('alert')
      .getByText(/character/i)
      .waitFor()
    await page.getByRole('button', { name: 'Characters' }).click()
    await page.getByRole('button', { name: /^Bolt/ }).click()
    await page.getByLabel('Message to Bolt').waitFor()
  })
})

describe('chatting', () => {
  it('sends with Enter, begins a line with Shift+Enter, and shows the reply as it comes', async () => {
    let finish = () => {}
    const end = new Promise<void>((resolve) => {
      finish = resolve
    })
    const { page, box, messages, upstream } = await talkToFern(pageBrowser, [begins('**Lift** the pot.', end)])
    await box.pressSequentially('How often')
    await box.press('Shift+Enter')
    await box.pressSequentially('do I water?')
    await box.press('Enter')
    await messages.nth(2).locator('strong', { hasText: 'Lift' }).waitFor()
    expect(await page.getByRole('button', { name: 'Stop' }).isVisible()).toBe(true)
    finish()
    await messages.nth(2).getByText('And that is all.').waitFor()
    await page.getByRole('button', { name: 'Send' }).waitFor()
    expect(await page.locator(':focus').getAttribute('aria-label')).toBe('Message to Fern')
    expect(toldLast(upstream).at(-1)).toEqual({ role: 'user', content: 'How often\ndo I water?' })
    expect(await page.getByRole('status').allTextContents()).toContain('Fern: **Lift** the pot. And that is all.')
  })

  it('stops with Escape, keeps the partial reply, and can continue it', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [begins('Once upon'), says(' a time.')])
    await say('A story!')
    await messages.nth(2).getByText('Once upon').waitFor()
    await page.keyboard.press('Escape')
    await (await upstream.called(1)).aborted
    await page.getByText('You have stopped this reply.').waitFor()
    await page.getByRole('button', { name: 'Continue' }).click()
    await messages.nth(2).getByText('Once upon a time.').waitFor()
    expect(toldLast(upstream).at(-1)).toEqual({ role: 'assistant', content: 'Once upon' })
    await expect.poll(() => messages.count()).toBe(3)
  })

  it('offers more replies with other seeds, and goes through them by buttons and keys', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [
      says('One.'),
      says('Two.'),
      says('Three.'),
    ])
    await say('Count!')
    const reply = messages.nth(2)
    await reply.getByText('One.').waitFor()
    await reply.getByRole('button', { name: 'Regenerate' }).click()
    await reply.getByText('Two.').waitFor()
    await reply.getByText('2 / 2').waitFor()
    await reply.focus()
    await page.keyboard.press('ArrowRight')
    await reply.getByText('Three.').waitFor()
    await reply.getByText('3 / 3').waitFor()
    await reply.focus()
    await page.keyboard.press('ArrowLeft')
    await reply.getByText('Two.').waitFor()
    await reply.getByRole('button', { name: 'Previous reply' }).click()
    await reply.getByText('One.').waitFor()
    const seeds = upstream.calls.map(({ body }) => body['seed'])
    expect(new Set(seeds).size).toBe(3)
    await say('And what was it?')
    await messages.nth(4).waitFor()
    await upstream.called(4)
    expect(toldLast(upstream).slice(-2)).toEqual([
      { role: 'assistant', content: 'One.' },
      { role: 'user', content: 'And what was it?' },
    ])
  })

  it('edits messages of the user and the character, and sends again', async () => {
    const { page, box, messages, say, upstream } = await talkToFern(pageBrowser, [says('A fern.'), says('A cactus.')])
    await say('What is tall?')
    await messages.nth(2).getByText('A fern.').waitFor()
    await messages.nth(2).getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Text of the message').fill('A palm.')
    await page.keyboard.press('Control+Enter')
    await messages.nth(2).getByText('A palm.').waitFor()
    await box.press('ArrowUp')
    expect(await page.getByLabel('Text of the message').inputValue()).toBe('What is tall?')
    await page.keyboard.press('Escape')
    await box.press('ArrowUp')
    await page.getByLabel('Text of the message').fill('What is dry?')
    await page.getByRole('button', { name: 'Save and send again' }).click()
    await messages.nth(2).getByText('A cactus.').waitFor()
    expect(toldLast(upstream).at(-1)).toEqual({ role: 'user', content: 'What is dry?' })
    await expect.poll(() => messages.count()).toBe(3)
  })

  it('sends an edited greeting to the model as text', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [says('Yes.')])
    await messages.first().getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Text of the message').fill('Good evening.')
    await page.getByRole('button', { name: 'Save' }).click()
    await say('Hello!')
    await messages.nth(2).getByText('Yes.').waitFor()
    const said = toldLast(upstream).filter(({ role }) => role !== 'system')
    expect(said.slice(-2)).toEqual([
      { role: 'assistant', content: 'Good evening.' },
      { role: 'user', content: 'Hello!' },
    ])
    expect(said.some(({ content }) => content.includes('Mind the hose'))).toBe(false)
  })

  it('copies a message, and undoes the deletion of the last message and the start of a new conversation', async () => {
    const { page, box, messages, say } = await talkToFern(pageBrowser, [says('*Yes.*')], {
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    await say('Hello!')
    await messages.nth(2).getByRole('button', { name: 'Copy' }).click()
    await page.getByText('The message is in the clipboard.').waitFor()
    await box.press('Control+V')
    expect(await box.inputValue()).toBe('*Yes.*')
    await messages.nth(2).getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Get a reply' }).waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await messages.nth(2).getByText('Yes.').waitFor()
    await page.getByRole('button', { name: 'New conversation' }).click()
    await page.getByText('A new conversation has begun.').waitFor()
    await expect.poll(() => messages.count()).toBe(1)
    await page.getByRole('button', { name: 'Undo' }).click()
    await messages.nth(2).getByText('Yes.').waitFor()
  })

  it('copies the code of a message, and says so only if it is copied', async () => {
    const { page, messages, say } = await talkToFern(pageBrowser, [says('```js\nwater()\n```')])
    await say('Hello!')
    // Over HTTP a page has no clipboard, except on localhost.
    await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true }))
    const copying = messages.nth(2).locator('.code-block').getByRole('button')
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).waitFor()
    await copying.click()
    const notice = page.locator('.notices .fault')
    expect(await notice.locator('span').textContent()).toBe(
      'The browser does not let this page use the clipboard. Select the text and copy it.',
    )
    expect(await copying.textContent()).toBe('Copy')
    await page.evaluate(() =>
      Object.defineProperty(navigator, 'clipboard', { value: { writeText: () => Promise.resolve() } }),
    )
    await copying.click()
    await messages.nth(2).getByRole('button', { name: 'Copied' }).waitFor()
  })

  it('opens the receipt of each reply', async () => {
    const { page, messages, say } = await talkToFern(pageBrowser, [says('Yes.')])
    await say('Hello!')
    await messages.nth(2).getByRole('button', { name: 'What the model was told' }).click()
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  })
})

describe('settings', () => {
  it('send the model, the temperature, the name and the persona, and survive a reload', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [says('Yes.')])
    const open = () => page.getByRole('button', { name: 'Settings' }).click()
    await open()
    await page.getByRole('combobox', { name: 'Model' }).selectOption('gardener')
    expect(await page.getByRole('combobox', { name: 'Model' }).textContent()).not.toContain('character/')
    await page.getByLabel('Temperature').fill('0.3')
    await page.getByLabel('Your name').fill('Ada')
    await page.getByLabel('Who you are').fill('A retired teacher.')
    await page.keyboard.press('Escape')
    await say('Hello!')
    await messages.nth(2).getByText('Yes.').waitFor()
    expect(upstream.calls.at(-1)?.body).toMatchObject({ temperature: 0.3 })
    expect(JSON.stringify(toldLast(upstream))).toContain('A retired teacher.')
    expect(JSON.stringify(toldLast(upstream))).toContain("You'll be Ada")
    await page.reload()
    await messages.nth(2).getByText('Yes.').waitFor()
    await open()
    expect(await page.getByLabel('Your name').inputValue()).toBe('Ada')
    expect(await page.getByLabel('Who you are').inputValue()).toBe('A retired teacher.')
    expect(await page.getByLabel('Temperature').inputValue()).toBe('0.3')
  })
})

it('the settings list the models of an upstream at the first look', async () => {
  const upstream = await upstreamForThisTest(json({ data: [{ id: 'far-away' }] }))
  const service = await serviceForThisTest({ OPENAI_BASE_URL: upstream.url })
  const page = await pageBrowser.openPage(service, { at: '#/chat/Fern' })
  const listed = page.waitForResponse('**/models')
  await page.getByRole('button', { name: 'Settings' }).click()
  expect(await (await listed).text()).toContain('far-away')
  const options = page.getByRole('combobox', { name: 'Model' }).getByRole('option')
  await options.filter({ hasText: 'far-away' }).waitFor({ state: 'attached' })
})

describe('a greeting', () => {
  it('has the name in the settings, also after a reload, and a changed greeting stays', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [says('Yes.')])
    await messages.first().getByText("You'll be User").waitFor()
    const rename = async (name: string) => {
      await page.getByRole('button', { name: 'Settings' }).click()
      await page.getByLabel('Your name').fill(name)
      await page.keyboard.press('Escape')
    }
    await rename('Mara')
    await messages.first().getByText("You'll be Mara").waitFor()
    await page.reload()
    await messages.first().getByText("You'll be Mara").waitFor()
    await say('Hello!')
    await messages.nth(2).getByText('Yes.').waitFor()
    expect(JSON.stringify(toldLast(upstream))).toContain("You'll be Mara")
    await rename('Ada')
    await messages.first().getByText("You'll be Ada").waitFor()
    await messages.first().getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Text of the message').fill('Come in, friend.')
    await page.getByRole('button', { name: 'Save' }).click()
    const loaded = page.waitForResponse(/characters\/Fern\?.*user_name=Mara/)
    await rename('Mara')
    await loaded
    await messages.first().getByText('Come in, friend.').waitFor()
  })
})

describe('the head of a conversation', () => {
  it('names the understudy, and says that it is a test double and no language model', async () => {
    const service = await serviceForThisTest()
    const page = await pageBrowser.openPage(service, { at: '#/chat/Fern' })
    const head = page.locator('.chat-head')
    await head.getByText('understudy · test double: a stand-in, not a language model').waitFor()
    await page.getByRole('button', { name: 'Settings' }).click()
    const options = page.getByRole('combobox', { name: 'Model' }).getByRole('option')
    await options.filter({ hasText: 'understudy (test double)' }).waitFor({ state: 'attached' })
  })

  it('asks for the chosen model once, not for each typed letter of its id', async () => {
    const upstream = await upstreamForThisTest(json({ data: [{ id: 'far-away' }] }))
    const service = await serviceForThisTest({ OPENAI_BASE_URL: upstream.url })
    const page = await pageBrowser.openPage(service, { at: '#/chat/Fern' })
    const head = page.locator('.chat-head')
    await head.getByText('understudy').waitFor()
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByRole('combobox', { name: 'Model' }).selectOption('Another …')
    await page.getByLabel('Id of the model').pressSequentially('my-own')
    await page.keyboard.press('Escape')
    await head.getByText('my-own', { exact: true }).waitFor()
    await expect.poll(() => asked.filter((path) => path.startsWith('/models/'))).toEqual(['/models/my-own'])
  })

  it('names the model, and after a fallback the model that has answered', async () => {
    const upstream = await upstreamForThisTest(says('Yes.'), json({ error: { message: 'no' } }, 500))
    const models = { ...gardener(upstream), understudy: { adapter: 'understudy' } }
    const best = { best: { fallback: ['gardener', 'understudy'] } }
    const service = await serviceForThisTest({ DEFAULT_MODEL: '' }, { ...best, ...models })
    const page = await pageBrowser.openPage(service, { at: '#/chat/Fern' })
    const { say, messages } = chatPage(page, service, upstream)
    const head = page.locator('.chat-head')
    await head.getByText('best', { exact: true }).waitFor()
    await say('Hello!')
    await messages.nth(2).getByText('Yes.').waitFor()
    await head.getByText('gardener', { exact: true }).waitFor()
    expect(await head.textContent()).not.toContain('stand-in')
    await say('And who are you?')
    await head.getByText('understudy · test double').waitFor()
  })
})

describe('the conversation', () => {
  it('survives a reload, other views and other characters, and is gone after signing out', async () => {
    const { page, service, box, messages, say } = await talkToFern(pageBrowser, [says('One.'), says('Two.')])
    await say('Count!')
    await messages.nth(2).getByText('One.').waitFor()
    await messages.nth(2).getByRole('button', { name: 'Regenerate' }).click()
    await messages.nth(2).getByText('Two.').waitFor()
    await box.fill('half a sentence')
    await page.reload()
    await messages.nth(2).getByText('Two.').waitFor()
    await messages.nth(2).getByText('2 / 2').waitFor()
    expect(await box.inputValue()).toBe('half a sentence')
    const views = page.getByRole('navigation', { name: 'Views' })
    await views.getByRole('link', { name: 'Account' }).click()
    await views.getByRole('link', { name: 'Chat' }).click()
    await messages.nth(2).getByText('Two.').waitFor()
    await page.goto(`${service.url}/#/chat/Bolt`)
    await page.getByLabel('Message to Bolt').waitFor()
    await page.goto(`${service.url}/#/chat/Fern`)
    await messages.nth(2).getByText('Two.').waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Your key').waitFor()
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0)
    await page.getByLabel('Your key').fill(service.key)
    await page.keyboard.press('Enter')
    // The address does not name the character any more.
    await page.getByRole('button', { name: /^Fern/ }).click()
    await page.getByRole('article').getByText('Mind the hose').waitFor()
    await expect.poll(() => messages.count()).toBe(1)
  })

  it('continues while another view is shown, and warns before the page is left', async () => {
    let finish = () => {}
    const end = new Promise<void>((resolve) => {
      finish = resolve
    })
    const { page, messages, say } = await talkToFern(pageBrowser, [begins('It is long.', end)])
    await say('A story!')
    await messages.nth(2).getByText('It is long.').waitFor()
    const views = page.getByRole('navigation', { name: 'Views' })
    await views.getByRole('link', { name: 'Account' }).click()
    const asked = new Promise<string>((resolve) => {
      page.once('dialog', (dialog) => {
        resolve(dialog.type())
        void dialog.dismiss()
      })
    })
    void page.reload({ timeout: 1000 }).catch(() => {})
    expect(await asked).toBe('beforeunload')
    finish()
    await views.getByRole('link', { name: 'Chat' }).click()
    await messages.nth(2).getByText('And that is all.').waitFor()
  })
})
