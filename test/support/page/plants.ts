import type { TestService } from '../service.ts'
import { openSql } from '../test-sql.ts'

/** Adds plants with the ids 1, 2 and so on to the account of a service's first key. It writes to the database directly. */
export async function plantInBulk(
  service: Pick<TestService, 'dataDirectory'>,
  count: number,
  of: (id: number) => { readonly name: string; readonly tag: string | null },
): Promise<void> {
  const sql = await openSql(service.dataDirectory)
  try {
    const rows = await sql.run<{ readonly id: number }>("SELECT id FROM accounts WHERE name = 'owner'")
    const account = rows[0]?.id ?? 0
    await sql.insert(
      'plants',
      Array.from({ length: count }, (_, index) => ({ account, id: index + 1, ...of(index + 1) })),
    )
  } finally {
    await sql.close()
  }
}
