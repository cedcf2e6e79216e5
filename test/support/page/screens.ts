import type { Page } from 'playwright-core'
import { desktop, type PageOptions, phone } from './page-browser.ts'

/** The screens on which each view is tested: a phone and a desktop, light and dark. */
export const screens: readonly (readonly [string, PageOptions])[] = (['light', 'dark'] as const).flatMap(
  (colorScheme) => [
    [`a phone, ${colorScheme}`, { viewport: phone, colorScheme }] as const,
    [`a desk, ${colorScheme}`, { viewport: desktop, colorScheme }] as const,
  ],
)

/** The pixels of the view beyond the right edge of the screen. */
export function pixelsBeyond(page: Page): Promise<number> {
  return page.locator('#view').evaluate((view) => Math.max(0, view.scrollWidth - view.clientWidth))
}
