import { sayDone, sayFailure } from './notices.ts'

/** Copies a text to the clipboard, and shows a notice. @param what the subject of the notice, such as "The key" */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    sayDone(`${what} is in the clipboard.`)
  } catch {
    // Browsers allow the clipboard only over HTTPS and on localhost.
    sayFailure(new Error('the browser keeps the clipboard from this page. Select the text and copy it.'))
  }
}

/** Lets the browser save a file. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content)
  const link = Object.assign(document.createElement('a'), { href: address, download: name })
  link.click()
  // After a minute the browser has begun to read the file.
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
