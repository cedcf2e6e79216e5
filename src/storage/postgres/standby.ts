import type { Transaction } from './database.ts'

/**
 * Makes the commit of a transaction not wait for standbys. This is for counts, heartbeats and the last uses of keys. A failover
 * may lose the latest of these writes, but that loss does no harm.
 */
export function withoutStandby(sql: Transaction): Promise<unknown> {
  // `execute` sends the statement immediately, before the next statement. In engines without this setting nothing changes.
  return sql
    .unsafe(`
      SELECT set_config('synchronous_commit', 'local', true)
      WHERE current_setting('synchronous_standby_names', true) <> '' AND current_setting('synchronous_commit') <> 'off'`)
    .execute()
}
