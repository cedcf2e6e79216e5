import type { ProgressOutput } from '../../print.ts'
import { counted } from '../../text.ts'
import { move, openForMove } from './move.ts'

/** Moves a database to another URL, and shows the progress: a bar on a terminal, otherwise a line for each tenth of the rows. */
export async function runMove(from: string, to: string, output: ProgressOutput): Promise<void> {
  const source = await openForMove(from, true)
  try {
    const target = await openForMove(to, false)
    try {
      let shown = 0
      const sums = await move(source, target, (done, all) => {
        const tenth = Math.floor((done / Math.max(all, 1)) * 10)
        const text = `moving: ${done} of ${counted(all, 'row')}`
        if (output.isTTY) output.write(`\r[${'#'.repeat(tenth).padEnd(10, '.')}] ${text}`)
        else if (tenth > shown) output.write(`${text}\n`)
        shown = tenth
      })
      if (output.isTTY) output.write('\n')
      const rows = sums.map(
        ({ table, rows, checksum }) => `  ${table}: ${counted(rows, 'row')}, checksum ${checksum.slice(0, 16)}\n`,
      )
      output.write(`Everything is moved, and equal on both sides:\n${rows.join('')}`)
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}
