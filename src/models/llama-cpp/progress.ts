import type { ProgressOutput } from '../../print.ts'

const barWidth = 30
/** Milliseconds between two updates of the bar. */
const redrawMs = 100
/** Bytes between two lines if the size of the download is not known. */
const bytesPerLine = 256 * 1024 ** 2

/**
 * Shows the progress of a download. A terminal shows a bar. A file or a pipe gets a line for every tenth of the download, or for
 * every 256 MiB if the size is not known.
 */
export class Progress {
  readonly #label: string
  readonly #total: number | undefined
  readonly #output: ProgressOutput
  readonly #start = performance.now()
  readonly #first: number
  #done: number
  #drawnAt = Number.NEGATIVE_INFINITY
  #step: number

  /** @param done bytes that an earlier attempt has downloaded */
  constructor(label: string, done: number, total: number | undefined, output: ProgressOutput) {
    this.#label = label
    this.#total = total
    this.#output = output
    this.#first = done
    this.#done = done
    this.#step = this.#stepOf(done)
  }

  add(bytes: number): void {
    this.#done += bytes
    if (this.#output.isTTY) {
      const now = performance.now()
      if (now - this.#drawnAt < redrawMs) return
      this.#drawnAt = now
      this.#draw('')
      return
    }
    const step = this.#stepOf(this.#done)
    if (step > this.#step) this.#output.write(`${this.#label}: ${this.#state()}\n`)
    this.#step = step
  }

  /** Draws the last state on a terminal, and ends its line. */
  end(): void {
    if (this.#output.isTTY) this.#draw('\n')
  }

  #stepOf(bytes: number): number {
    return Math.floor(this.#total ? (bytes / this.#total) * 10 : bytes / bytesPerLine)
  }

  #draw(end: string): void {
    const filled = Math.floor((this.#total ? Math.min(this.#done / this.#total, 1) : 0) * barWidth)
    const bar = `[${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}]`
    // The sequence after the text clears the rest of the line.
    this.#output.write(`\r${this.#label} ${this.#total ? `${bar} ` : ''}${this.#state()}\u001B[K${end}`)
  }

  #state(): string {
    const seconds = Math.max((performance.now() - this.#start) / 1000, 0.001)
    const rate = `${megabytes((this.#done - this.#first) / seconds)}/s`
    if (!this.#total) return `${megabytes(this.#done)}, ${rate}`
    const percent = Math.floor((this.#done / this.#total) * 100)
    return `${percent} % of ${megabytes(this.#total)}, ${rate}`
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`
}
