import { writeFileSync } from 'node:fs'
import { isPrintedToFile, print, printAndWait } from '../print.ts'
import { headerLine } from './account-file.ts'
import { namelessFile } from './nameless-file.ts'
import type { ExportSink } from './transfers.ts'

const pieceBytes = 256 * 1024

/**
 * Prints an account's file. The reader of a pipe may be slow, so the export first goes into a file without a name: then the
 * database's snapshot ends as soon as all plants are read, and the plants do not wait in memory.
 * @param folder the folder of the file without a name
 * @param exportTo exports the plants
 */
export async function printExport(
  account: string,
  folder: string,
  exportTo: (sink: ExportSink) => Promise<void>,
): Promise<void> {
  const to = (write: (lines: string) => void) =>
    exportTo({ begin: (count) => write(headerLine(account, count)), add: write, end() {} })
  if (isPrintedToFile()) return await to(print)
  const file = await namelessFile(folder)
  try {
    await to((lines) => writeFileSync(file.fd, lines))
    const pieces = file.createReadStream({ encoding: 'utf8', start: 0, highWaterMark: pieceBytes, autoClose: false })
    for await (const piece of pieces) {
      if (!(await printAndWait(String(piece)))) return
    }
  } finally {
    await file.close()
  }
}
