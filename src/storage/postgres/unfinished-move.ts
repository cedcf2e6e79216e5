import { type Note, toUnfinished, type Unfinished } from '../unfinished-move.ts'
import type { PostgresDatabase } from './database.ts'

/** The move into a PostgreSQL that is not done, if there is one. */
export function unfinishedIn(database: PostgresDatabase): Promise<Unfinished | undefined> {
  return database.read(async (sql) => {
    const there = await sql`
      SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'moves'`
    return there.length === 0 ? undefined : toUnfinished(await sql<Note[]>`SELECT name, value FROM moves`)
  })
}
