import { Cursors, cursorKeyName } from '../../src/plants/cursor.ts'
import { openSql } from './test-sql.ts'

/** The cursors of a service, with the key in the database of its data folder. */
export async function cursorsOf(dataDirectory: string): Promise<Cursors> {
  const sql = await openSql(dataDirectory)
  const [row] = await sql.run<{ readonly value: string }>('SELECT value FROM secrets WHERE name = ?', cursorKeyName)
  await sql.close()
  return new Cursors(Buffer.from(row?.value ?? '', 'hex'))
}
