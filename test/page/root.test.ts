import { describe, expect, it } from 'vitest'
import { serviceForThisTest } from '../support/service.ts'

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'

describe('GET /', () => {
  it.each<[accept: string | null, type: string]>([
    [browser, 'text/html'],
    ['text/html', 'text/html'],
    ['text/html;q=0.5, application/json;q=0.4', 'text/html'],
    [null, 'application/json'],
    ['*/*', 'application/json'],
    ['application/json', 'application/json'],
    ['application/json, text/plain, */*', 'application/json'],
    ['text/html;q=0', 'application/json'],
    ['text/html;q=0.4, application/json;q=0.5', 'application/json'],
    ['text/html;q=nonsense', 'application/json'],
  ])('answers Accept: %s with %s', async (accept, type) => {
    const service = await serviceForThisTest()
    const reply = await service.request('/', { headers: { authorization: null, accept: accept ?? '' } })
    expect(reply.status).toBe(200)
    expect(reply.headers.get('content-type')).toContain(type)
    expect(reply.headers.get('vary')).toMatch(/\baccept\b(?!-)/i)
  })

  it('lists the routes for programs', async () => {
    const service = await serviceForThisTest()
    const { version, ...told }: Record<string, unknown> = JSON.parse(await (await service.request('/')).text())
    expect(version).toMatch(/^\d+\.\d+\.\d+/)
    expect(told).toEqual({
      ...{ name: 'conservatory', docs: '/docs', openapi: '/openapi.json' },
      ...{ plants: '/plants', chat: '/chat/completions' },
    })
    const without = await serviceForThisTest({ DOCS: 'off' })
    expect(await (await without.request('/')).json()).not.toHaveProperty('docs')
  })

  it('is a 404 with PAGE=off, like the files of the page', async () => {
    const service = await serviceForThisTest({ PAGE: 'off' })
    for (const accept of ['*/*', browser]) {
      const reply = await service.request('/', { headers: { accept } })
      expect(reply.status).toBe(404)
    }
    expect((await service.request('/page/any/main.ts')).status).toBe(404)
  })
})

describe('the page', () => {
  it('links only to files that exist and may be cached for ever, and has no inline script or style', async () => {
    const service = await serviceForThisTest()
    const reply = await service.request('/', { headers: { accept: browser } })
    expect(reply.headers.get('content-security-policy')).toContain("require-trusted-types-for 'script'")
    expect(reply.headers.get('cross-origin-opener-policy')).toBe('same-origin')
    const html = await reply.text()
    const named = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '')
    expect(named.length).toBeGreaterThan(10)
    expect(html).not.toMatch(/VERSION|<style|style=|<script(?! type="module" src=)/)
    for (const path of named) {
      const file = await service.request(`/${path}`)
      expect([path, file.status]).toEqual([path, 200])
      expect(file.headers.get('cache-control')).toContain('immutable')
    }
  })

  it('has less than 150 kB compressed, with all its views and libraries', async () => {
    const { readPage } = await import('../../src/page/contents.ts')
    const service = await serviceForThisTest()
    const { version, files } = await readPage()
    const sizeOf = async (path: string) => {
      const headers = { accept: browser, 'accept-encoding': 'gzip, deflate, br, zstd' }
      const reply = await service.request(path, { headers })
      await reply.arrayBuffer()
      expect([path, reply.status, reply.headers.get('content-encoding')]).toEqual([path, 200, 'br'])
      return Number(reply.headers.get('content-length'))
    }
    const sizes = [
      await sizeOf('/'),
      ...(await Promise.all(files.map(({ path }) => sizeOf(`/page/${version}/${path}`)))),
    ]
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000)
  })

  it('asks to reload for a file of another version', async () => {
    const service = await serviceForThisTest()
    const reply = await service.request('/page/older/main.ts')
    expect(reply.status).toBe(404)
    expect(await reply.text()).toContain('Reload the page')
  })
})
