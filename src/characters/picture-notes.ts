import { type Clock, inBackground, pause } from '../clock.ts'
import { ApiError } from '../errors.ts'
import type { Work } from '../work/work.ts'
import { type CharacterKey, type CharacterStore, type VersionKey, wholeOf } from './library/character.ts'

/** Milliseconds from the start until the first page, and between two pages. */
const startDelayMs = 60_000
const pauseMs = 20
/** The number of characters (personas) in a page. */
const pageLength = 50

/** The options of `notePictures`. */
export interface PictureNotesOptions {
  readonly store: Pick<CharacterStore, 'page' | 'source' | 'noteAbout'>
  readonly clock: Clock
  /** Opens the work to read cards, by account. */
  readonly workOf: (account: number) => Work
  /** Runs `read` while a card's bytes are counted as in flight. */
  readonly during: <T>(account: number, bytes: number, read: () => Promise<T>) => Promise<T>
  readonly onFailure: (error: unknown) => void
}

/**
 * Checks once after the start whether uploads from before 0.2.0 have a picture, and records the result. For a later upload,
 * the result is stored with the card.
 * @returns a function that stops the checks, and resolves when no check is running
 */
export function notePictures(options: PictureNotesOptions): () => Promise<void> {
  return inBackground(async (signal) => {
    try {
      await pause(options.clock, startDelayMs, signal)
      for (let after = await notePage(options, null, signal); after !== null; ) {
        await pause(options.clock, pauseMs, signal)
        after = await notePage(options, after, signal)
      }
    } catch (error) {
      if (!signal.aborted) options.onFailure(error)
    }
  })
}

/** Checks a page of characters. @returns the last character of the page; null if the page is empty */
async function notePage(
  options: PictureNotesOptions,
  after: CharacterKey | null,
  signal: AbortSignal,
): Promise<CharacterKey | null> {
  const page = await options.store.page(after, pageLength)
  for (const { account, name, digest, about } of page) {
    signal.throwIfAborted()
    if (about.avatar !== undefined) continue
    try {
      const avatar = await hasPicture(options, { account, name, digest })
      if (avatar !== undefined) await options.store.noteAbout({ account, name, digest }, { ...about, avatar })
    } catch (error) {
      // The card is checked again after the next start.
      options.onFailure(error)
    }
  }
  return page.at(-1) ?? null
}

/** Whether a stored card has a picture; undefined if the card is deleted meanwhile. An unreadable card has no picture. */
async function hasPicture(
  { store, workOf, during }: PictureNotesOptions,
  { account, name, digest }: VersionKey,
): Promise<boolean | undefined> {
  const source = await store.source(account, name, digest)
  if (!source) return undefined
  const { runOnCard, uploadJob } = await import('./library/jobs.ts')
  return during(account, source.length, async () => {
    const bytes = await wholeOf(source)
    if (!bytes) return undefined
    try {
      const { about } = await runOnCard(workOf(account), 'character', uploadJob, bytes, bytes)
      return about.avatar
    } catch (error) {
      // A refusal of the card comes from a worker as a plain `ApiError`.
      if (error instanceof ApiError && error.status < 500) return false
      throw error
    }
  })
}
