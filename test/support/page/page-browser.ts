import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import { type TestService, temporaryFolder } from '../service.ts'

/** Options of opening the page. */
export interface PageOptions extends BrowserContextOptions {
  /** The key to sign in with. By default it is the service's first key; with null the page is not signed in. */
  readonly key?: string | null
  /** The fragment of the URL to open, such as `#/plants`. */
  readonly at?: string
  /** Lines that the console may have: a browser writes a line for each error status, which some tests expect. */
  readonly expected?: readonly RegExp[]
}

/** Sizes of screens. */
export const phone = { width: 390, height: 844 }
export const desktop = { width: 1280, height: 800 }

/** A browser for a test file. Each test opens the page of a service in this browser. */
export interface PageBrowser {
  /**
   * Opens the page. At the end of the test the console must have only the lines in `expected`, the content security policy must
   * not be violated, and no other host may have got a request.
   */
  openPage(service: Pick<TestService, 'url' | 'key'>, screen?: PageOptions): Promise<Page>
}

/** For each context these features start processes that no test uses: two pages of the address bar, and a spare renderer. */
const unusedFeatures = ['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'SpareRendererForSitePerProcess']

/** The features that Playwright disables. They are repeated here, because Chromium takes only its last list. */
const disabledByPlaywright = [
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'LensOverlay'],
  ...['HttpsFirstBalancedModeAutoEnable', 'MediaRouter', 'PaintHolding', 'ThirdPartyStoragePartitioning'],
  ...['AvoidCorsURLLoaderRestartOnRedirect', 'TcpPortRandomizationWin', 'OptimizationHints', 'AimEnabled'],
  ...['NetworkTimeServiceQuerying', 'PreconnectToSearch'],
]

const args = [`--disable-features=${[...disabledByPlaywright, ...unusedFeatures].join()}`]

/** Starts a browser for the test file that calls it. */
export function browserForThisFile(): PageBrowser {
  let browser: Browser | undefined
  // Chromium leaves temporary files behind when it ends under load.
  const temporary = temporaryFolder()
  beforeAll(async () => {
    const executablePath = process.env['CHROMIUM']
    const options = { env: { ...process.env, TMPDIR: temporary.path }, args }
    browser = await chromium.launch(executablePath === undefined ? options : { ...options, executablePath })
  })
  afterAll(async () => {
    await browser?.close()
    temporary.remove()
  })
  return {
    async openPage(service, { key = service.key, at = '', expected = [], ...options } = {}) {
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

/** A list of the forbidden actions of a page. It grows while the page is open. */
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

/** The serious and critical accessibility faults that axe-core finds in the current page, a line for each. */
export async function barriersOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe)
  const { violations } = await page.evaluate<AxeResult>('axe.run(document, { resultTypes: ["violations"] })')
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, help, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html} ${failureSummary}`),
    )
}
