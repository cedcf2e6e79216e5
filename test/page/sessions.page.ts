import type { Page, Route } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { visitorForThisFile } from '../support/page/visitor.ts'
import { serviceForThisTest } from '../support/service.ts'

const visitor = visitorForThisFile()

async function signOut(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Your key').waitFor()
}

async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('Your key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByRole('navigation', { name: 'Views' }).waitFor()
}

describe('after another account has signed in', () => {
  it('shows nothing of the account before, not even what comes late', async () => {
    const service = await serviceForThisTest()
    await service.request('/characters', { json: { name: 'Secret of the owner', first_mes: 'Hush.' } })
    const other = await service.makeKey('other')
    const page = await visitor.visit(service, { key: null })
    const held = Promise.withResolvers<Route>()
    await page.route('**/characters?*', (route) => held.resolve(route), { times: 1 })
    await signIn(page, service.key)
    const route = await held.promise
    await signOut(page)
    await signIn(page, other)
    await route.continue().catch(() => {})
    await page.getByRole('button', { name: /^Fern/ }).waitFor()
    await page.getByText(/^\d+ characters$/).waitFor()
    expect(await page.getByText('Secret of the owner').count()).toBe(0)
  })

  it('lists the characters anew', async () => {
    const service = await serviceForThisTest()
    await service.request('/characters', { json: { name: 'Secret of the owner', first_mes: 'Hush.' } })
    const other = await service.makeKey('other')
    const page = await visitor.visit(service)
    await page.getByText('Secret of the owner').waitFor()
    await signOut(page)
    const held = Promise.withResolvers<Route>()
    await page.route('**/characters?*', (route) => held.resolve(route), { times: 1 })
    await signIn(page, other)
    const route = await held.promise
    await page.getByText('Whom do you want to talk to?').waitFor()
    expect(await page.getByText('Secret of the owner').count()).toBe(0)
    await route.continue()
    await page.getByRole('button', { name: /^Fern/ }).waitFor()
  })
})
