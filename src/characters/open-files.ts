import { finished, type Writable } from 'node:stream'
import { clientGone } from '../errors.ts'
import type { BytesInFlight, HeldBytes } from '../http/bytes-in-flight.ts'

/** A card's file to send. */
export interface CardFile {
  readonly bytes: Buffer
  /** Parts of the card that the file does not contain, one sentence each. */
  readonly losses: readonly string[]
  /** The media type, if the format of the request does not decide it. */
  readonly type?: string
}

/** A file that is being made or sent. */
interface OpenFile {
  readonly file: Promise<CardFile>
  readonly held: HeldBytes
  /** Aborts `make` when no reader is left. */
  readonly ending: AbortController
  readers: number
}

/**
 * Makes a file. The signal aborts when the last reader has disconnected.
 * @param onMemory to be called before memory for unpacked content is allocated; throws ApiError 503 if there is no room for it
 */
type MakeFile = (signal: AbortSignal, onMemory: (unpackedBytes: number) => void) => Promise<CardFile>

/** The card files that are being sent. Requests of one account for one file share its bytes, which count once as in flight. */
export class OpenFiles {
  readonly #inFlight: BytesInFlight
  readonly #files = new Map<string, OpenFile>()

  constructor(inFlight: BytesInFlight) {
    this.#inFlight = inFlight
  }

  /**
   * Opens a file for a reply, and closes it when the reply ends.
   * @param name identifies the file among the files of the account
   * @param size the bytes of the card's source, which count several times as in flight while `make` runs
   * @throws ApiError 503 if too many bytes are in flight, and the errors of `make`
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
    const making = make(ending.signal, (unpacked) => held.setWorkedOn(Math.max(size, unpacked))).then((file) => {
      held.set(file.bytes.length)
      return file
    })
    // `during` keeps the bytes counted until `make` ends, even if all readers disconnect before.
    const open: OpenFile = { file: held.during(making), held, ending, readers: 0 }
    this.#files.set(key, open)
    return open
  }
}
