import type { Transaction } from './database.ts'

/**
 * Lets the commit of a transaction wait for no standby. It is for counts and heartbeats, which are sent again or expire within
 * a minute: a failover may lose the last of them.
 */
export function withoutStandby(sql: Transaction): Promise<unknown> {
  // Sent at once, before the next statement. Other engines do not have the setting, so the statement changes nothing there.
  return sql
    .unsafe(`
      SELECT set_config('synchronous_commit', 'local', true)
      WHERE current_setting('synchronous_standby_names', true) <> '' AND current_setting('synchronous_commit') <> 'off'`)
    .execute()
}
