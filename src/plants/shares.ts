import type { Actor, AuditEntry, Recorder } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { query, type Script } from '../storage/scripts.ts'
import { accountGone } from '../storage/write-error.ts'
import { unixSeconds } from '../time.ts'
import type { Share } from './plant.ts'

// The statements of shares, for both engines. An empty tag in the table `grants` means all plants.

/** A share that is to be granted or revoked. */
export interface ShareRequest {
  /** The id of the owner. */
  readonly account: number
  /** The id of the account that may see the plants. */
  readonly grantee: number
  /** The tag of the share; undefined grants all plants, and revokes all shares. */
  readonly tag: string | undefined
}

/**
 * Grants a share, with its audit record.
 * @returns whether the share is new
 * @throws ApiError 400 when both accounts are the same, 403 when one of them was deleted
 */
export function* grant(share: ShareRequest, by: Actor, record: Recorder): Script<boolean> {
  const { account, grantee, tag = '' } = share
  if (account === grantee) throw new ApiError(400, 'own_plants', 'An account sees its own plants already.')
  const granted = yield* query(
    'INSERT INTO grants (owner, grantee, tag, created) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING tag',
    account,
    grantee,
    tag,
    unixSeconds(),
  )
  if (granted.length > 0) yield* record(by, yield* entryOf('share.granted', share, [tag]))
  return granted.length > 0
}

/** Revokes a share, or all shares with an account, with its audit record. @returns whether there was such a share */
export function* revoke(share: ShareRequest, by: Actor, record: Recorder): Script<boolean> {
  const { account, grantee, tag } = share
  const one = tag === undefined ? '' : 'AND tag = $3'
  const revoked = yield* query<{ tag: string }>(
    `DELETE FROM grants WHERE owner = $1 AND grantee = $2 ${one} RETURNING tag`,
    ...[account, grantee, ...(tag === undefined ? [] : [tag])],
  )
  const tags = revoked.map((row) => row.tag).toSorted()
  if (tags.length > 0) yield* record(by, yield* entryOf('share.revoked', share, tags))
  return tags.length > 0
}

/** All shares, sorted by owner, grantee and tag. */
export function allShares(): Script<readonly Share[]> {
  return query(`
    SELECT owners.name AS "from", grantees.name AS "to", nullif(tag, '') AS tag, grants.created
    FROM grants JOIN accounts AS owners ON owners.id = owner JOIN accounts AS grantees ON grantees.id = grantee
    ORDER BY owners.name, grantees.name, grants.tag`)
}

/** The name of an account. @throws ApiError 403 when the account was deleted */
export function* nameOf(account: number): Script<string> {
  const [row] = yield* query<{ name: string }>('SELECT name FROM accounts WHERE id = $1', account)
  if (!row) throw accountGone(undefined)
  return row.name
}

function* entryOf(
  action: 'share.granted' | 'share.revoked',
  { account, grantee, tag }: ShareRequest,
  tags: readonly string[],
): Script<AuditEntry> {
  const target = `${yield* nameOf(account)}>${yield* nameOf(grantee)}${tag === undefined ? '' : `#${tag}`}`
  const facts = { tags: tags.map((each) => each || null) }
  const isNew = action === 'share.granted'
  return { action, target, account: { id: account }, before: isNew ? null : facts, after: isNew ? facts : null }
}
