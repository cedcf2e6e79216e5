import { spend } from '../../work/fuel.ts'
import type { Audience, LoreEntry } from './entry.ts'
import type { Lorebook } from './lorebook.ts'

/**
 * The character that speaks next, and the kind of its reply. They are compared with the `Audience` of an entry that is only for
 * some characters or kinds of replies.
 */
export interface Speaker {
  /** The names of the character (in the library, in the card, and its nickname) and its tags, in lower case. */
  readonly names: ReadonlySet<string>
  readonly tags: ReadonlySet<string>
  /** `continue` if the request ends with the beginning of a reply, which the model continues. */
  readonly reply: 'normal' | 'continue'
}

/** Units of work for one entry, besides one unit for each item of its lists. */
const unitsOfEntry = 5

/** The entries of a book that are for this character and this kind of reply, in the order of the book. */
export function entriesFor({ entries }: Lorebook, speaker: Speaker): readonly LoreEntry[] {
  const found: LoreEntry[] = []
  for (const entry of entries) {
    const { audience } = entry
    if (!audience || isFor(audience, speaker)) found.push(entry)
    spend(unitsOfEntry + (audience ? audience.names.length + audience.tags.length + audience.replies.length : 0))
  }
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
