import { readConfig } from '../../src/config.ts'
import { startService } from '../../src/service.ts'
import { GroupCommit } from '../../src/storage/group-commit.ts'

/*
 * The service without group commit, for comparison: `node bench/peers/one-commit-each.ts`, with the service's settings. Only
 * the commit differs: each write is committed immediately in its own transaction, and not at the end of a turn of the event loop.
 */

const { run } = GroupCommit.prototype
GroupCommit.prototype.run = function <T>(this: GroupCommit, write: () => T): Promise<T> {
  const done = run.call<GroupCommit, [() => T], Promise<T>>(this, write)
  this.flush()
  return done
}
await startService(readConfig(process.env))
