import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { ApiError } from '../errors.ts'
import { query, type Script } from '../storage/scripts.ts'
import type { Position } from './plant.ts'

/** The name of the key of cursors in the table `secrets`. */
export const cursorKeyName = 'cursors'

/** Finds the key of cursors, and makes it if it does not exist. @throws Error for a cut key, with which cursors could be forged */
export function* keptCursorKey(): Script<Buffer> {
  const find = () => query<{ value: string }>('SELECT value FROM secrets WHERE name = $1', cursorKeyName)
  let [found] = yield* find()
  if (!found) {
    // Another replica may make the key at the same time.
    const insert = 'INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING'
    yield* query(insert, cursorKeyName, randomBytes(32).toString('hex'))
    ;[found] = yield* find()
  }
  if (!found || !/^[\da-f]{64}$/.test(found.value)) {
    throw new Error('the key of cursors in the table secrets is damaged')
  }
  return Buffer.from(found.value, 'hex')
}

/** Bytes of an initialization vector of AES in counter mode. */
const ivBytes = 16
/** Bytes of a position: two numbers of 64 bits. */
const positionBytes = 16

/**
 * Encrypts positions in lists as opaque cursors, because the position of a shared plant has the account and the id of its owner.
 * The encryption is deterministic, so that an unchanged page has an unchanged `ETag`. As in SIV (RFC 5297), which Node lacks, the
 * initialization vector is a keyed digest of the position, and authenticates it too: here HMAC-SHA256, cut to 128 bits, and
 * AES-256-CTR, each with its own key.
 */
export class Cursors {
  readonly #ivKey: Buffer
  readonly #textKey: Buffer

  /** @param key the key of the database, at least 32 random bytes, from which both keys are derived (RFC 5869) */
  constructor(key: Buffer) {
    const derive = (use: string) => Buffer.from(hkdfSync('sha256', key, '', `cursor ${use}`, 32))
    this.#ivKey = derive('iv')
    this.#textKey = derive('text')
  }

  /** Writes a position as the value of the parameter `after`. */
  write({ account, id }: Position): string {
    const text = Buffer.alloc(positionBytes)
    text.writeBigInt64BE(BigInt(account), 0)
    text.writeBigInt64BE(BigInt(id), 8)
    return this.#encrypt(text)
  }

  /**
   * Reads the value of the parameter `after`.
   * @throws ApiError 400 for a text that `write` of this key has not written, such as a cursor of version 0.1
   */
  read(cursor: string): Position {
    const text = this.#decrypt(cursor)
    if (text.length !== positionBytes) throw invalidCursor()
    return { account: Number(text.readBigInt64BE(0)), id: Number(text.readBigInt64BE(8)) }
  }

  /**
   * Writes a place of any list as the value of the parameter `after`.
   * @param list the name of the list. Its JSON and that of the place have more bytes than a position
   */
  writePlace(list: string, place: readonly (string | number)[]): string {
    return this.#encrypt(Buffer.from(JSON.stringify([list, ...place])))
  }

  /** Reads a place of a list. @throws ApiError 400 for a text that `writePlace` has not written for this list */
  readPlace(list: string, cursor: string): readonly (string | number)[] {
    const text = this.#decrypt(cursor)
    // Only this key writes cursors, so the text is one of `writePlace`.
    const [ofList, ...place]: readonly (string | number)[] =
      text.length === positionBytes ? [] : JSON.parse(text.toString())
    if (ofList !== list) throw invalidCursor()
    return place
  }

  #encrypt(text: Buffer): string {
    const iv = this.#ivOf(text)
    const encrypted = createCipheriv('aes-256-ctr', this.#textKey, iv).update(text)
    return Buffer.concat([iv, encrypted]).toString('base64url')
  }

  #decrypt(cursor: string): Buffer {
    const bytes = Buffer.from(cursor, 'base64url')
    if (bytes.length < ivBytes) throw invalidCursor()
    const iv = bytes.subarray(0, ivBytes)
    const text = createDecipheriv('aes-256-ctr', this.#textKey, iv).update(bytes.subarray(ivBytes))
    // The text is compared too, because Node's base64 decoder skips characters that are not base64.
    if (!timingSafeEqual(this.#ivOf(text), iv) || bytes.toString('base64url') !== cursor) throw invalidCursor()
    return text
  }

  #ivOf(text: Buffer): Buffer {
    return createHmac('sha256', this.#ivKey).update(text).digest().subarray(0, ivBytes)
  }
}

function invalidCursor(): ApiError {
  const message =
    'The query parameter "after" is not valid here. Begin again without it, and take each further address whole from the Link header of the reply before.'
  return new ApiError(400, 'invalid_cursor', message, { param: 'after' })
}
