import { finished, type Writable } from 'node:stream'
import { clientGone } from '../errors.ts'
import type { BytesInFlight, HeldBytes } from '../http/bytes-in-flight.ts'

/** A card's file, as it is sent. */
export interface CardFile {
  readonly bytes: Buffer
  /** What of the card is not in it, one sentence each. */
  readonly losses: readonly string[]
  /** Its media type, where its name does not tell it. */
  readonly type?: string
}

/** A file that is being read, or made. */
interface OpenFile {
  readonly file: Promise<CardFile>
  readonly held: HeldBytes
  /** Ends the making of it. */
  readonly ending: AbortController
  readers: number
}

/** Makes a file, until the signal aborts because nobody wants it any more. */
type MakeFile = (signal: AbortSignal) => Promise<CardFile>

/** The card files that are being read: all who read the same one share its bytes, which are counted once. */
export class OpenFiles {
  readonly #inFlight: BytesInFlight
  readonly #files = new Map<string, OpenFile>()

  constructor(inFlight: BytesInFlight) {
    this.#inFlight = inFlight
  }

  /**
   * Opens a file for a reply; it is closed when the reply is over.
   * @param account whose readers share it
   * @param name tells the file from the account's others
   * @param size bytes that making it needs: they are counted before it is made
   * @throws ApiError 503 where there is no room for them, or what `make` throws
   */
  open(reply: Writable, account: number, name: string, size: number, make: MakeFile): Promise<CardFile> {
    const key = `${account} ${name}`
    const open = this.#files.get(key) ?? this.#begin(key, account, size, make)
    open.readers++
    finished(reply, () => {
      open.readers--
      if (open.readers > 0) return
      if (this.#files.get(key) === open) this.#files.delete(key)
      open.held.release()
      open.ending.abort(clientGone())
    })
    return open.file
  }

  #begin(key: string, account: number, size: number, make: MakeFile): OpenFile {
    const held = this.#inFlight.open(account)
    held.setWorkedOn(size)
    const ending = new AbortController()
    const making = make(ending.signal).then((file) => {
      held.set(file.bytes.length)
      return file
    })
    // Its readers may leave before it is made.
    const open: OpenFile = { file: held.during(making), held, ending, readers: 0 }
    this.#files.set(key, open)
    return open
  }
}
