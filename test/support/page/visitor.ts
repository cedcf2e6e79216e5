import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import type { TestService } from '../service.ts'

/** How somebody looks at the page. */
export interface Sight extends BrowserContextOptions {
  /** The key to sign in with; the service's first without it, and none where it is null. */
  readonly key?: string | null
  /** Where to begin, such as `#/plants`. */
  readonly at?: string
  /** What the console may say: a browser writes a line for each reply that is no success, which some tests want. */
  readonly expected?: readonly RegExp[]
}

/** Sizes that views are looked at in. */
export const phone = { width: 390, height: 844 }
export const desktop = { width: 1280, height: 800 }

/** A browser for a test file, which opens the page of a service for one test. */
export interface Visitor {
  /**
   * Opens the page. When the test is over its console must have been empty, with no violation of the policy, and no other
   * host must have been asked for anything.
   */
  visit(service: Pick<TestService, 'url' | 'key'>, sight?: Sight): Promise<Page>
}

/** Starts a browser for the test file that calls it. */
export function visitorForThisFile(): Visitor {
  let browser: Browser | undefined
  beforeAll(async () => {
    const executablePath = process.env['CHROMIUM']
    browser = await chromium.launch(executablePath === undefined ? {} : { executablePath })
  })
  afterAll(() => browser?.close())
  return {
    async visit(service, { key = service.key, at = '', expected = [], ...options } = {}) {
      if (!browser) throw new Error('The browser has not started.')
      const context = await browser.newContext({ viewport: desktop, ...options })
      const page = await context.newPage()
      const problems = problemsOf(page, new URL(service.url).host, expected)
      onTestFinished(async () => {
        await context.close()
        expect(problems).toEqual([])
      })
      if (key !== null) {
        await page.goto(`${service.url}/#key=${encodeURIComponent(key)}`)
        await page.getByRole('navigation', { name: 'Views' }).waitFor()
      } else {
        await page.goto(`${service.url}/`)
      }
      if (at !== '') await page.goto(`${service.url}/${at}`)
      return page
    },
  }
}

/** All that a page must not do, as it comes. */
function problemsOf(page: Page, host: string, expected: readonly RegExp[]): string[] {
  const problems: string[] = []
  const tell = (problem: string) => {
    if (!expected.some((pattern) => pattern.test(problem))) problems.push(problem)
  }
  page.on('console', (message) => tell(`console: ${message.text()} (${message.location().url})`))
  page.on('pageerror', (error) => tell(`thrown: ${error.stack ?? error.message}`))
  page.on('request', (request) => {
    const { protocol, host: asked } = new URL(request.url())
    if (!['blob:', 'data:'].includes(protocol) && asked !== host) tell(`asked another host: ${request.url()}`)
  })
  return problems
}

const axe = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

interface AxeResult {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string | null
    readonly help: string
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
  }[]
}

/** What axe-core finds of serious and critical faults in what a page shows now, a line for each; none is the aim. */
export async function barriersOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe)
  const { violations } = await page.evaluate<AxeResult>('axe.run(document, { resultTypes: ["violations"] })')
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, help, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html} ${failureSummary}`),
    )
}
