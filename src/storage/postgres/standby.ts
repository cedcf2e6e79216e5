import type { Transaction } from './database.ts'

/**
 * Lets the commit of a transaction wait for no standby, where the server's commits wait for one: for counts and signs of
 * life, which are told again or forgotten within a minute. A failover may lose the last of them.
 */
export function withoutStandby(sql: Transaction): Promise<unknown> {
  // Sent at once, before whatever is asked next. Other engines have no standby of this name, and so nothing to set.
  return sql
    .unsafe(`
      SELECT set_config('synchronous_commit', 'local', true)
      WHERE current_setting('synchronous_standby_names', true) <> '' AND current_setting('synchronous_commit') <> 'off'`)
    .execute()
}
