import { readFileSync } from 'node:fs'

/** What the service's package says of itself. */
export function readManifest(): { readonly version: string } {
  const manifest: { readonly version: string } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  )
  return manifest
}
