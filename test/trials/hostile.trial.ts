import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adapters } from '../support/hostile/adapters.ts'
import { cards } from '../support/hostile/cards.ts'
import { chats } from '../support/hostile/chats.ts'
import { files } from '../support/hostile/files.ts'
import { lasting } from '../support/hostile/lasting.ts'
import { allClosed, costsOf } from '../support/hostile/measure.ts'
import { requests } from '../support/hostile/requests.ts'
import type { Row } from '../support/hostile/row.ts'
import { schemas } from '../support/hostile/schemas.ts'
import { held } from '../support/hostile/slow.ts'
import { small } from '../support/hostile/small.ts'
import { stores } from '../support/hostile/stores.ts'
import { cellsOf, isTooMuch, type Line, markdownOf, missesOf } from '../support/hostile/table.ts'
import { upstreams } from '../support/hostile/upstreams.ts'
import { Watch } from '../support/hostile/watch.ts'
import { projectFolder } from '../support/process.ts'

/*
 * The effect of hostile callers on other callers. Each row is an attack over HTTP on a new service. 1 or 16 attackers take part in
 * parallel, each with a key of its own account; in some rows they have no key. The trial measures the main thread, memory, the
 * replies, and the latency of bystanders, who use other accounts. Settings:
 *
 *   ATTACKERS=1,16         the numbers of attackers, at most 16
 *   ROWS=lore              only rows whose names in the table, or whose groups, match
 *   CHECKOUT=../old        attacks the service of another checkout, with its node_modules
 *   TABLE=table.md         also writes the table into this file, after each row
 *   CALM_SECONDS=60        seconds without requests before the memory of a service after the attack is measured
 *   PROFILES=profiles      each service writes a CPU profile into this folder
 */

const groups: Readonly<Record<string, readonly Row[]>> = {
  schemas,
  chats,
  cards,
  files,
  adapters,
  upstreams,
  requests,
  slow: held,
  small,
  lasting,
  stores,
}
const setting = (name: string, standard: string) => process.env[name] || standard
const checkout = resolve(setting('CHECKOUT', projectFolder))
const wanted = new RegExp(setting('ROWS', ''))

/** A line of the table. The memory after the calm is added when it is measured. */
type Measured = { -readonly [Name in keyof Line]: Line[Name] }

const lines: Measured[] = []
const calming: Promise<unknown>[] = []
let watch: Watch

beforeAll(async () => {
  watch = await Watch.start()
})

afterAll(async () => {
  await allClosed()
  await Promise.all(calming)
  watch.close()
  console.table(lines.map(cellsOf))
  writeTable()
})

function writeTable(): void {
  if (process.env['TABLE']) writeFileSync(process.env['TABLE'], markdownOf(lines))
}

async function measure(row: Row): Promise<void> {
  const found = await costsOf(row, checkout, {
    watch,
    attackers: setting('ATTACKERS', '1,16').split(',').map(Number),
    calmSeconds: Number(setting('CALM_SECONDS', '60')),
  })
  for (const cost of found) {
    const line: Measured = { row, cost, calm: Number.NaN }
    lines.push(line)
    calming.push(
      cost.calm.then((bytes) => {
        line.calm = bytes
      }),
    )
  }
  writeTable()
  const misses = found.map((cost) => ({ attackers: cost.attackers, misses: missesOf(row, cost) }))
  expect.soft(misses.filter((each) => each.misses.length > 0)).toEqual([])
}

for (const [group, rows] of Object.entries(groups)) {
  const chosen = rows.filter((row) => wanted.test(row.name) || wanted.test(group))
  describe.runIf(chosen.length > 0)(group, () => {
    it.each(chosen.map((row) => [row.name, row] as const))('%s', (_name, row) => measure(row))
  })
}

it('the service returns memory to the system after each attack', async () => {
  await allClosed()
  await Promise.all(calming)
  const kept = lines.filter(({ calm }) => isTooMuch(calm)).map(({ row, calm }) => ({ row: row.name, calm }))
  expect(kept).toEqual([])
})
