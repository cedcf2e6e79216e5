import type { Locator, Page } from 'playwright-core'
import { serviceForThisTest, type TestService } from '../service.ts'
import { chunkText, type Script, type ScriptedUpstream, sse, streamOf, upstreamForThisTest } from '../upstream.ts'
import type { PageBrowser, PageOptions } from './page-browser.ts'

/** A conversation in the page, with a scripted model. */
export interface ChatPage {
  readonly page: Page
  readonly service: TestService
  readonly upstream: ScriptedUpstream
  readonly box: Locator
  readonly messages: Locator
  /** Writes a text into the box, and sends it with Enter. */
  say(text: string): Promise<void>
}

/**
 * Opens the page, and then the conversation with Fern by a click.
 * @param scripts the model's answers, call by call
 */
export async function talkToFern(
  pageBrowser: PageBrowser,
  scripts: readonly Script[],
  screen: PageOptions = {},
): Promise<ChatPage> {
  const upstream = await upstreamForThisTest(...scripts)
  const service = await serviceForThisTest({}, gardener(upstream))
  const page = await pageBrowser.openPage(service, screen)
  await page.getByRole('button', { name: /^Fern/ }).click()
  await page.getByRole('article').getByText('Mind the hose').waitFor()
  return chatPage(page, service, upstream)
}

/** The models of a service with only the upstream, without retries. */
export function gardener({ url }: ScriptedUpstream): Readonly<Record<string, unknown>> {
  return { gardener: { adapter: 'openai', baseUrl: url, retries: 0, breaker: { failures: 0 } } }
}

/** Finds the elements of a page that shows the conversation with Fern. */
export function chatPage(page: Page, service: TestService, upstream: ScriptedUpstream): ChatPage {
  const box = page.getByLabel('Message to Fern')
  return {
    ...{ page, service, upstream, box },
    messages: page.getByRole('article'),
    async say(text) {
      await box.fill(text)
      await box.press('Enter')
    },
  }
}

/** Answers with a whole streamed reply. */
export function says(text: string): Script {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(streamOf(text).join(''))
  }
}

/** Begins a streamed reply, and leaves it open until the caller disconnects or `end` is settled. */
export function begins(text: string, end: Promise<void> = new Promise(() => {})): Script {
  return async (response, { aborted }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(sse(chunkText({ role: 'assistant', content: text })))
    await Promise.race([end, aborted])
    response.end(sse(chunkText({ content: ' And that is all.' }), chunkText({}, 'stop'), '[DONE]'))
  }
}

/** Begins a streamed reply, and drops the connection. */
export function breaksOff(text: string): Script {
  return async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(sse(chunkText({ role: 'assistant', content: text })))
    await new Promise((resolve) => setImmediate(resolve))
    response.socket?.resetAndDestroy()
  }
}

/** The texts of the last request to an upstream. */
export function toldLast({ calls }: ScriptedUpstream): readonly { readonly role: string; readonly content: string }[] {
  const messages = calls.at(-1)?.body['messages']
  return Array.isArray(messages) ? messages : []
}
