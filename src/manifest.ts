import { readFileSync } from 'node:fs'

/** Reads the service's `package.json`. */
export function readManifest(): { readonly version: string } {
  const manifest: { readonly version: string } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  )
  return manifest
}
