import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const brand = 'cv_'
const randomLength = 32
const checksumLength = 6
const ourForm = new RegExp(`^${brand}[0-9A-Za-z]{${randomLength + checksumLength}}$`)

/**
 * Makes a new secret key: `cv_`, 32 random base-62 characters (190 bits), and their CRC-32 in 6 characters. So secret scanners
 * recognise a leaked key, and the service tells a mistyped key from an unknown one.
 */
export function makeKey(): string {
  const random = Array.from({ length: randomLength }, () => alphabet[randomInt(alphabet.length)]).join('')
  return `${brand}${random}${checksum(random)}`
}

/** Whether a key begins with `cv_`, but has a wrong form or checksum: a typo or a cut-off paste. */
export function isMistyped(key: string): boolean {
  if (!key.startsWith(brand)) return false
  if (!ourForm.test(key)) return true
  return checksum(key.slice(brand.length, -checksumLength)) !== key.slice(-checksumLength)
}

/** The SHA-256 digest of a key in 64 hex digits, which is stored instead of the key. */
export function digestKey(key: string): string {
  return hash('sha256', key)
}

/**
 * The part of a key that may be shown again: enough to recognise the key, and too little to use it. No two keys of the service have
 * the same part, so for keys of our form it is long enough that nobody can use up all of them. A preset key may be short.
 */
export function keyPrefix(key: string): string {
  if (ourForm.test(key)) return key.slice(0, brand.length + 8)
  return key.startsWith(brand) ? key.slice(0, brand.length + 4) : key.slice(0, 4)
}

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let position = 0; position < checksumLength; position++) {
    digits = `${alphabet[rest % alphabet.length]}${digits}`
    rest = Math.floor(rest / alphabet.length)
  }
  return digits
}
