import { bufferOf, buffersOf } from '../bytes.ts'
import { defineJob } from '../work/job.ts'
import { type Avatar, avatarOf } from './cards/avatar.ts'
import { exportCard } from './cards/export.ts'
import { type ExportFormat, readCardSource } from './cards/source.ts'
import { publicBody, type ShownCharacter, type Viewer } from './character-body.ts'

/** A card's file for a download. */
interface CardFile {
  /** Null if the file is the card's own. */
  readonly bytes: Uint8Array | null
  /** Parts of the card that the file does not contain, one sentence each. */
  readonly losses: readonly string[]
}

/** Writes a card in a format. `now` is in milliseconds. */
export const exportJob = defineJob(
  import.meta.url,
  'exportJob',
  (input: { readonly bytes: Uint8Array; readonly format: ExportFormat; readonly now: number }): CardFile => {
    const source = readCardSource(bufferOf(input.bytes))
    const { bytes, losses } = exportCard(source, input.format, input.now)
    return { bytes: bytes === source.bytes ? null : bytes, losses }
  },
  ({ bytes }) => (bytes ? buffersOf(bytes) : []),
)

/** Takes the picture out of a card. */
export const avatarJob = defineJob(
  import.meta.url,
  'avatarJob',
  (bytes: Uint8Array): Avatar => avatarOf(readCardSource(bufferOf(bytes))),
  ({ bytes }) => buffersOf(bytes),
)

/** Makes the JSON of a character's body. */
export const bodyJob = defineJob(
  import.meta.url,
  'bodyJob',
  (input: { readonly bytes: Uint8Array; readonly character: ShownCharacter; readonly viewer: Viewer }): Uint8Array => {
    const body = publicBody(input.character, readCardSource(bufferOf(input.bytes)), input.viewer)
    return Buffer.from(JSON.stringify(body))
  },
  buffersOf,
)
