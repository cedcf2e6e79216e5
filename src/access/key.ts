import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const brand = 'cv_'
const randomLength = 32
const checksumLength = 6
const ourForm = new RegExp(`^${brand}[0-9A-Za-z]{${randomLength + checksumLength}}$`)

/**
 * Makes a new secret key: `cv_`, 32 random base-62 characters (190 bits), and a 6-character CRC-32 of them,
 * so that scanners find leaked keys and a mistyped one is told from an unknown one without asking the database.
 */
export function makeKey(): string {
  const random = Array.from({ length: randomLength }, () => alphabet[randomInt(alphabet.length)]).join('')
  return `${brand}${random}${checksum(random)}`
}

/** Tells whether a key says by its prefix that we made it, yet its checksum is wrong: a typo or a cut-off paste. */
export function isMistyped(key: string): boolean {
  if (!key.startsWith(brand)) return false
  if (!ourForm.test(key)) return true
  return checksum(key.slice(brand.length, -checksumLength)) !== key.slice(-checksumLength)
}

/** SHA-256 of a key: what is stored and compared in its place. 64 hex digits. */
export function digestKey(key: string): string {
  return hash('sha256', key)
}

/** The part of a key that may be shown again: enough to recognise it by, too little to use. */
export function keyPrefix(key: string): string {
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
