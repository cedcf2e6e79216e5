import type { Page } from 'playwright-core'

/** Opens the receipt of a request in the page, as the chat view does. When the receipt closes, `document.title` changes. */
export async function openReceipt(page: Page, request: object, requestId: string | null): Promise<void> {
  await page.evaluate(`globalThis.request = ${JSON.stringify(request)}`)
  await openReceiptOfGlobal(page, requestId)
}

/** Opens the receipt of the request that is `globalThis.request` in the page. */
export async function openReceiptOfGlobal(page: Page, requestId: string | null): Promise<void> {
  await page.evaluate(`(async () => {
    const main = document.querySelector('script[type=module]').src
    const { html, render } = await import(new URL('libraries/htm/preact/module.js', main).href)
    const { Receipt } = await import(new URL('receipt/view.ts', main).href)
    const place = document.body.appendChild(document.createElement('div'))
    const onClose = () => {
      render(null, place)
      place.remove()
      document.title = 'closed'
    }
    render(html\`<\${Receipt} request=\${globalThis.request} requestId=\${${JSON.stringify(requestId)}} onClose=\${onClose} />\`, place)
  })()`)
}
