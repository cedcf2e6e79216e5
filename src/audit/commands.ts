import { type Command, Option } from 'commander'
import type { WithStores } from '../command.ts'
import { printRows } from '../print.ts'
import { readMoment } from '../time.ts'
import { type AuditAction, type AuditQuestion, type AuditRecord, type AuditStores, auditActions } from './record.ts'

interface AuditOptions {
  readonly since?: string
  readonly account?: string
  readonly action?: AuditAction
  readonly json?: true
}

const pageSize = 1000

/** Adds `audit` to the command line. */
export function addAuditCommand(program: Command, withStores: WithStores<AuditStores>): void {
  program
    .command('audit')
    .option(
      '--since <day>',
      'the first day in UTC, or a moment such as 2026-11-01T08:00:00Z; the default is all records that are kept',
    )
    .option('--account <name>', 'only records about the account with this name, even if it is deleted')
    .addOption(new Option('--action <name>', 'only this action').choices(auditActions))
    .option('--json', 'print JSON')
    .description('list who changed what, the oldest first')
    .action(async ({ since, account, action, json }: AuditOptions) => {
      const from = since === undefined ? undefined : readMoment('since', since)
      const question = { since: from, accountName: account?.trim(), action, limit: pageSize }
      await withStores(async ({ audit }) => {
        const records: AuditRecord[] = []
        for (let next: AuditQuestion | undefined = question; next; ) {
          const found: readonly AuditRecord[] = await audit.list(next)
          records.push(...found)
          next = found.length < pageSize ? undefined : { ...question, after: found.at(-1)?.id }
        }
        printRows(json ? records : records.map(rowOf), json)
      })
    })
}

/** A record as a row of a table. */
function rowOf({ at, actor, from, action, target, before, after }: AuditRecord): object {
  const { kind, key, account } = actor
  const facts = (side: AuditRecord['before']) => side && JSON.stringify(side)
  return {
    at,
    actor: key ?? kind,
    account,
    from,
    action,
    target,
    before: facts(before),
    after: facts(after),
  }
}
