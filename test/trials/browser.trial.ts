import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { chromium } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { serviceForThisTest } from '../support/service.ts'

/* A page of another origin in headless Chromium lists plants and streams a chat. CHROMIUM is its path. */

interface Told {
  readonly plants: unknown
  readonly etag: string | null
  readonly character: string | null
  readonly text: string
}

test('a page of another origin lists plants and streams a chat', async () => {
  const pages = createServer((_request, response) => void response.end('<!doctype html><title>page</title>'))
  await new Promise<void>((listening) => pages.listen(0, '127.0.0.1', listening))
  onTestFinished(() => void pages.close())
  const origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`
  const service = await serviceForThisTest({ CORS_ORIGINS: origin })
  const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium' })
  onTestFinished(() => browser.close())
  const page = await browser.newPage()
  await page.goto(origin)
  const told = await page.evaluate(
    async ({ url, key }): Promise<Told> => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      await fetch(`${url}/plants`, { method: 'POST', headers, body: JSON.stringify({ name: 'Monstera' }) })
      const list = await fetch(`${url}/plants?limit=10`, { headers })
      const messages = [{ role: 'user', content: 'Why are my leaves yellow?' }]
      const body = JSON.stringify({ model: 'understudy', character: 'Fern', stream: true, messages })
      const reply = await fetch(`${url}/chat/completions`, { method: 'POST', headers, body })
      const seen = { etag: list.headers.get('etag'), character: reply.headers.get('x-character') }
      return { ...seen, plants: await list.json(), text: await reply.text() }
    },
    { url: service.url, key: service.key },
  )
  expect(told.plants).toEqual([{ name: 'Monstera' }])
  expect(told.etag).toMatch(/^(W\/)?"/)
  expect(told.text).toMatch(/chat\.completion\.chunk[\s\S]*\[DONE\]/)
  expect(told.character).toMatch(/^Fern@sha256:/)
}, 120_000)
