import { describe, expect, it } from 'vitest'
import { begins, breaksOff, chatPage, gardener, says, talkToFern, toldLast } from '../support/page/chat-page.ts'
import { browserForThisFile } from '../support/page/page-browser.ts'
import { startTestService } from '../support/service.ts'
import { chunkText, json, pieces, sse, upstreamForThisTest } from '../support/upstream.ts'

const pageBrowser = browserForThisFile()

describe('a reply that breaks off', () => {
  it('keeps its text, shows the reason, and can be continued', async () => {
    const { page, messages, say, upstream } = await talkToFern(pageBrowser, [breaksOff('Once upon'), says(' a time.')])
    await say('A story!')
    await page
      .getByRole('alert')
      .getByText(/broke off/)
      .waitFor()
    await messages.nth(2).getByText('Once upon').waitFor()
    await page.reload()
    await page
      .getByRole('alert')
      .getByText(/broke off/)
      .waitFor()
    await page.getByRole('button', { name: 'Continue' }).click()
    await messages.nth(2).getByText('Once upon a time.').waitFor()
    expect(toldLast(upstream).at(-1)).toEqual({ role: 'assistant', content: 'Once upon' })
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  it('can be requested again as another reply, beside the partial reply', async () => {
    const { page, messages, say } = await talkToFern(pageBrowser, [breaksOff('Once upon'), says('A whole one.')])
    await say('A story!')
    await page.getByRole('button', { name: 'Try again' }).click()
    await messages.nth(2).getByText('A whole one.').waitFor()
    await messages.nth(2).getByRole('button', { name: 'Previous reply' }).click()
    await messages.nth(2).getByText('Once upon').waitFor()
  })

  it('says that it has reached the maximum length', async () => {
    const long = pieces([sse(chunkText({ role: 'assistant', content: 'Once' }), chunkText({}, 'length'), '[DONE]')])
    const { page, messages, say } = await talkToFern(pageBrowser, [long, says(' upon a time.')])
    await say('A story!')
    await page.getByText('The reply is as long as the model may make it.').waitFor()
    await page.getByRole('button', { name: 'Continue' }).click()
    await messages.nth(2).getByText('Once upon a time.').waitFor()
  })
})

describe('a reply without a text', () => {
  it.each(['stop', 'length', 'content_filter', 'tool_calls'])(
    'has a sentence that says what to do, and no empty bubble, if it ends with %s',
    async (reason) => {
      const empty = pieces([sse(chunkText({ role: 'assistant', content: '' }), chunkText({}, reason), '[DONE]')])
      const { page, messages, say } = await talkToFern(pageBrowser, [empty, says('Here.')])
      await say('Hello!')
      await messages.nth(2).getByRole('alert').getByText('try again', { exact: false }).first().waitFor()
      expect(await messages.nth(2).locator('.bubble').count()).toBe(0)
      await page.getByRole('button', { name: 'Try again' }).click()
      await messages.nth(2).getByText('Here.').waitFor()
      expect(await messages.nth(2).getByRole('alert').count()).toBe(0)
    },
  )

  it('is not sent to the model with the next message', async () => {
    const empty = pieces([sse(chunkText({ role: 'assistant', content: '' }), chunkText({}, 'stop'), '[DONE]')])
    const { messages, say, upstream } = await talkToFern(pageBrowser, [empty, says('Here.')])
    await say('Hello!')
    await messages.nth(2).getByRole('alert').waitFor()
    await say('Are you there?')
    await messages.nth(4).getByText('Here.').waitFor()
    expect(toldLast(upstream).filter(({ content }) => content === '')).toEqual([])
    expect(toldLast(upstream).slice(-2)).toEqual(
      ['Hello!', 'Are you there?'].map((content) => ({ role: 'user', content })),
    )
  })
})

describe('a reply that does not come', () => {
  it('shows the model’s error, and can be requested again', async () => {
    const refusal = json({ error: { message: 'no', type: 'x', param: null, code: null } }, 500)
    const { page, messages, say } = await talkToFern(pageBrowser, [refusal, says('Here.')], { expected: [/50\d/] })
    await say('Hello!')
    await page.getByRole('alert').getByText(/model/i).waitFor()
    expect(await messages.nth(2).locator('.bubble').count()).toBe(0)
    await messages.nth(2).getByRole('button', { name: 'What the model was told' }).click()
    const receipt = page.getByRole('dialog', { name: 'What the model was told' })
    await receipt.getByText('This request has no successful reply, but a model may have got it.').waitFor()
    expect(await receipt.getByText('No model was asked.').count()).toBe(0)
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Try again' }).click()
    await messages.nth(2).getByText('Here.').waitFor()
    expect(await messages.nth(2).getByText('/ 2').count()).toBe(0)
  })

  it('shows how long to wait after a limit', async () => {
    const upstream = await upstreamForThisTest(says('Here.'))
    const service = await startTestService({ LIMITS: 'requests_per_minute=8' }, gardener(upstream))
    try {
      const page = await pageBrowser.openPage(service, { expected: [/429/], at: '#/chat/Fern' })
      const { say, messages } = chatPage(page, service, upstream)
      await page.getByRole('article').getByText('Mind the hose').waitFor()
      const refused = messages.getByRole('alert')
      for (let count = 0; count < 10 && (await refused.count()) === 0; count++) {
        await say(`Question ${count}`)
        await page.getByRole('button', { name: 'Send' }).waitFor()
      }
      await refused.getByText(/It can be sent again from .*:.* on\./).waitFor()
      await refused.getByRole('button', { name: 'Try again' }).waitFor()
    } finally {
      await service.close()
    }
  })

  it('says that the device is offline, and sends when it is online again', async () => {
    const { page, messages, say } = await talkToFern(pageBrowser, [says('Here.')], {
      expected: [/ERR_INTERNET_DISCONNECTED/],
    })
    await page.context().setOffline(true)
    await say('Hello!')
    await page.getByRole('alert').getByText('This device is offline. Connect it, then try again.').waitFor()
    await page.context().setOffline(false)
    await page.getByRole('button', { name: 'Try again' }).click()
    await messages.nth(2).getByText('Here.').waitFor()
  })
})

describe('a conversation', () => {
  it('keeps the partial reply when the service stops', async () => {
    const upstream = await upstreamForThisTest(begins('It is long'))
    const service = await startTestService({ SHUTDOWN_GRACE: '0' }, gardener(upstream))
    const page = await pageBrowser.openPage(service, { at: '#/chat/Fern', expected: [/ERR_|Failed to load/] })
    const { messages, say, box } = chatPage(page, service, upstream)
    await box.waitFor()
    await page.getByRole('article').getByText('Mind the hose').waitFor()
    await say('A story!')
    await messages.nth(2).getByText('It is long').waitFor()
    await service.close()
    await page.getByRole('button', { name: 'Continue' }).waitFor()
    expect(await page.getByRole('alert').textContent()).toMatch(/\w+ .*\./)
    await messages.nth(2).getByText('It is long').waitFor()
    await page.getByRole('button', { name: 'Continue' }).click()
    await page
      .getByRole('alert')
      .getByText(/The service does not answer/)
      .waitFor()
    await messages.nth(2).getByText('It is long').waitFor()
  })

  it('asks for another key when its key was revoked, and then continues', async () => {
    const upstream = await upstreamForThisTest(says('One.'), says('Two.'))
    const service = await startTestService({}, gardener(upstream))
    try {
      const page = await pageBrowser.openPage(service, { at: '#/chat/Fern', expected: [/401/] })
      const { messages, say } = chatPage(page, service, upstream)
      await page.getByRole('article').getByText('Mind the hose').waitFor()
      await say('Count!')
      await messages.nth(2).getByText('One.').waitFor()
      const other = await service.makeKey('owner')
      const { data } = JSON.parse(await (await service.request('/keys')).text())
      const first = data.find(({ prefix }: { prefix: string }) => service.key.startsWith(prefix))
      await service.request(`/keys/${first.id}`, { method: 'DELETE', headers: { authorization: `Bearer ${other}` } })
      await say('And?')
      await page.getByRole('alert').getByText(/key/).waitFor()
      await page.getByLabel('Your key').fill(other)
      await page.keyboard.press('Enter')
      await messages.nth(2).getByText('One.').waitFor()
      await page.getByRole('button', { name: 'Try again' }).click()
      await messages.nth(4).getByText('Two.').waitFor()
    } finally {
      await service.close()
    }
  })
})
