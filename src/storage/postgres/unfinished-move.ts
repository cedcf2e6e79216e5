import { type MoveRow, toUnfinishedMove, type UnfinishedMove } from '../unfinished-move.ts'
import type { PostgresDatabase } from './database.ts'

/** The unfinished move into a PostgreSQL database; undefined when there is no such move. */
export function unfinishedMoveIn(database: PostgresDatabase): Promise<UnfinishedMove | undefined> {
  return database.read(async (sql) => {
    const there = await sql`
      SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'moves'`
    return there.length === 0 ? undefined : toUnfinishedMove(await sql<MoveRow[]>`SELECT name, value FROM moves`)
  })
}
