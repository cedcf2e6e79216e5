import { readConfig } from '../../src/config.ts'
import { startService } from '../../src/service.ts'
import { GroupCommit } from '../../src/storage/group-commit.ts'

/*
 * The service with a transaction to each write, for comparison: `node bench/peers/one-commit-each.ts`, with the service's
 * own settings. Nothing but the moment of the commit is another one: at once, not at the end of the event loop's turn.
 */

const { run } = GroupCommit.prototype
GroupCommit.prototype.run = function <T>(this: GroupCommit, write: () => T): Promise<T> {
  const done = run.call<GroupCommit, [() => T], Promise<T>>(this, write)
  this.flush()
  return done
}
await startService(readConfig(process.env))
