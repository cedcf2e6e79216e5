const tab = '\t'.charCodeAt(0)
const lineEnd = '\n'.charCodeAt(0)
const backslash = '\\'.charCodeAt(0)
/** The letter that, after a backslash, means null in COPY. */
const nullLetter = 'N'.charCodeAt(0)

const idBegin = Buffer.from('{"id":')
const nameBegin = Buffer.from(',"name":"')
const tagBegin = Buffer.from('","tag":"')
const tagEnd = Buffer.from('"}\n')

/** For each byte, its form in a JSON string. Bytes from 128 on are parts of characters, which JSON does not escape. */
const inJson = Array.from({ length: 256 }, (_, byte) =>
  byte < 128 ? Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1)) : Buffer.from([byte]),
)
/** For each byte, 1 if COPY and JSON do not escape the byte. */
const isPlain = Uint8Array.from(inJson, (written) => (written.length === 1 ? 1 : 0))
/** For each letter after a backslash, the byte that it means in COPY (postgresql.org/docs/current/sql-copy.html). */
const unescapedByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
for (const [letter, control] of ['b\b', 'f\f', 'n\n', 'r\r', 't\t', 'v\v']) {
  unescapedByte[letter?.charCodeAt(0) ?? 0] = control?.charCodeAt(0) ?? 0
}

/**
 * The maximum length of a line in the file, divided by the length of its row in COPY: a control character takes six bytes in
 * JSON, and the shortest row, `1\t\t\n`, becomes a line of 28 bytes.
 */
const maxLineGrowth = 7

/**
 * Converts the output of COPY, with the columns id, name and tag, into the lines of an account's file, as `plantLine` writes
 * them. The server does not write the JSON, because this work would take three times as long as reading the plants. The
 * conversion works on bytes: with strings, it would take three times as long.
 * @param pieces the output of COPY in UTF-8, in pieces of any size
 * @returns whole lines in UTF-8
 */
export async function* linesOfCopy(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0)
  let space = Buffer.alloc(0)
  for await (const piece of pieces) {
    const whole = rest.length === 0 ? piece : Buffer.concat([rest, piece])
    const end = whole.lastIndexOf('\n') + 1
    if (space.length < end * maxLineGrowth) space = Buffer.allocUnsafe(end * maxLineGrowth)
    if (end > 0) yield Buffer.from(space.subarray(0, writeLines(whole.subarray(0, end), space)))
    rest = Buffer.from(whole.subarray(end))
  }
}

/** Writes the lines of whole rows. @returns the bytes written */
function writeLines(rows: Buffer, lines: Buffer): number {
  const line = new LineWriter(rows, lines)
  while (line.read < rows.length) {
    line.put(idBegin)
    line.copyText(tab)
    line.put(nameBegin)
    line.copyText(tab)
    if (!line.skipNull()) {
      line.put(tagBegin)
      line.copyText(lineEnd)
    }
    line.put(tagEnd)
  }
  return line.written
}

/** Reads rows of COPY and writes lines of JSON. `read` and `written` are the offsets in the two buffers. */
class LineWriter {
  read = 0
  written = 0
  readonly #rows: Buffer
  readonly #lines: Buffer

  constructor(rows: Buffer, lines: Buffer) {
    this.#rows = rows
    this.#lines = lines
  }

  /** Writes a few bytes. A loop is faster than a method of `Buffer`. */
  put(bytes: Buffer): void {
    for (let index = 0; index < bytes.length; index++) this.#lines[this.written++] = bytes[index] ?? 0
  }

  /** Reads a column up to the byte `end`, and writes it with JSON's escapes. */
  copyText(end: number): void {
    const rows = this.#rows
    const lines = this.#lines
    let { read, written } = this
    for (let byte = rows[read++] ?? end; byte !== end; byte = rows[read++] ?? end) {
      if (isPlain[byte] === 1) {
        lines[written++] = byte
        continue
      }
      const character = byte === backslash ? unescapedByte[rows[read++] ?? end] : byte
      this.written = written
      this.put(inJson[character ?? byte] ?? rows)
      written = this.written
    }
    this.read = read
    this.written = written
  }

  /** Skips the last column of a row if the column is null. @returns whether it is null */
  skipNull(): boolean {
    const isNull = this.#rows[this.read] === backslash && this.#rows[this.read + 1] === nullLetter
    if (isNull) this.read += 3
    return isNull
  }
}
