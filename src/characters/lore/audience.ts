import type { Steps } from '../../work.ts'
import type { Audience, LoreEntry } from './entry.ts'
import type { Lorebook } from './lorebook.ts'

/** The character that speaks next, and the kind of its reply: entries for some characters or replies are chosen by them. */
export interface Speaker {
  /** The names that the character goes by, and its tags, in lower case. */
  readonly names: ReadonlySet<string>
  readonly tags: ReadonlySet<string>
  /** `continue` goes on with a reply that the request has begun. */
  readonly reply: 'normal' | 'continue'
}

/** Units of work of one entry, besides the length of its lists. */
const unitsOfEntry = 5

/** The entries of a filtered book that are for this character and this reply, in the book's order. */
export function* entriesFor({ entries }: Lorebook, speaker: Speaker): Steps<readonly LoreEntry[]> {
  const found: LoreEntry[] = []
  let units = 0
  for (const entry of entries) {
    const { audience } = entry
    if (!audience || isFor(audience, speaker)) found.push(entry)
    units += unitsOfEntry + (audience ? audience.names.length + audience.tags.length + audience.replies.length : 0)
    if (units < 2000) continue
    yield units
    units = 0
  }
  yield units
  return found
}

function isFor({ names, tags, isExcluding, replies }: Audience, speaker: Speaker): boolean {
  // Each list must allow the character, as in SillyTavern.
  const allows = (listed: readonly string[], own: ReadonlySet<string>) =>
    listed.length === 0 || listed.some((each) => own.has(each)) !== isExcluding
  return (
    (replies.length === 0 || replies.includes(speaker.reply)) &&
    allows(names, speaker.names) &&
    allows(tags, speaker.tags)
  )
}
