import type { Page } from 'playwright-core'
import { desktop, phone, type Sight } from './visitor.ts'

/** How each view is looked at: on a phone and on a desk, light and dark. */
export const sights: readonly (readonly [string, Sight])[] = (['light', 'dark'] as const).flatMap((colorScheme) => [
  [`a phone, ${colorScheme}`, { viewport: phone, colorScheme }] as const,
  [`a desk, ${colorScheme}`, { viewport: desktop, colorScheme }] as const,
])

/** How many pixels of the view are beyond the right edge of the screen, where nobody looks for them. */
export function pixelsBeyond(page: Page): Promise<number> {
  return page.locator('#view').evaluate((view) => Math.max(0, view.scrollWidth - view.clientWidth))
}
