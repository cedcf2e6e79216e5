import { Failure } from '../base/failure.ts'
import { sayDone, sayFailure } from './notices.ts'

/**
 * Copies a text to the clipboard, and shows a notice.
 * @param what the subject of the notice, such as "The key"
 * @returns whether the text is in the clipboard
 */
export async function copy(text: string, what: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    sayDone(`${what} is in the clipboard.`)
    return true
  } catch {
    // Browsers allow the clipboard only over HTTPS and on localhost.
    const message = 'The browser does not let this page use the clipboard. Select the text and copy it.'
    sayFailure(new Failure(0, 'no_clipboard', message))
    return false
  }
}

/** Lets the browser save a file. */
export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content)
  const link = Object.assign(document.createElement('a'), { href: address, download: name })
  link.click()
  // The browser needs the address until it reads the file. A minute is enough.
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
