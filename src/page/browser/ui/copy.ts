import { sayDone, sayFailure } from './notices.ts'

/** Puts a text into the clipboard, and says so. @param what such as "The key" */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    sayDone(`${what} is in the clipboard.`)
  } catch {
    // Browsers give a page the clipboard over HTTPS and on this machine alone.
    sayFailure(new Error('the browser keeps the clipboard from this page. Select the text and copy it.'))
  }
}

/** Has the browser save a file. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content)
  const link = Object.assign(document.createElement('a'), { href: address, download: name })
  link.click()
  // The browser has begun to read it when the click is over; it goes with the tab at the latest.
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
