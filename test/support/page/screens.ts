import type { Page } from 'playwright-core'
import { desktop, type PageOptions, phone } from './page-browser.ts'

/** The screens on which each view is tested: a phone and a desktop, each in light and dark colours. */
export const screens: readonly (readonly [string, PageOptions])[] = (['light', 'dark'] as const).flatMap(
  (colorScheme) => [
    [`a phone, ${colorScheme}`, { viewport: phone, colorScheme }] as const,
    [`a desk, ${colorScheme}`, { viewport: desktop, colorScheme }] as const,
  ],
)

/** How many pixels the content of the view is wider than the view; 0 if it fits. */
export function pixelsBeyond(page: Page): Promise<number> {
  return page.locator('#view').evaluate((view) => Math.max(0, view.scrollWidth - view.clientWidth))
}
