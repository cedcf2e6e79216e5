import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { avatarSteps } from '../../../src/characters/cards/avatar.ts'
import { cardSourceSteps, readCardSource } from '../../../src/characters/cards/source.ts'
import type { Steps } from '../../../src/work.ts'
import { cardOfV3, jsonBytes } from '../../support/cards.ts'
import { png, pngChunk, zip } from '../../support/containers.ts'

const size = 2_000_000
const picture = png(pngChunk('IDAT', randomBytes(size)))
const link = (uri: string) => ({ assets: [{ type: 'icon', name: 'main', ext: 'png', uri }] })
const cardWith = (data: object) => jsonBytes({ ...cardOfV3, data: { ...cardOfV3.data, ...data } })
const archive = zip([
  {
    name: 'card.json',
    content: cardWith({ ...link('embeded://a.png'), extensions: { x: randomBytes(size / 2).toString('hex') } }),
  },
  { name: 'a.png', content: picture },
])
const source = readCardSource(archive)
const inlined = readCardSource(cardWith(link(`data:image/png;base64,${picture.toString('base64')}`)))

/** Runs some of the steps, and closes them. @returns whether all steps were done */
function isDoneAfter(count: number, steps: Steps<unknown>): boolean {
  for (let step = 0; step < count; step++) if (steps.next().done) return true
  steps.return(undefined)
  return false
}

describe('15 steps that are closed', () => {
  test.each<[string, () => Steps<unknown>]>([
    ['read an archive', () => cardSourceSteps(archive)],
    ['read a picture of an archive', () => avatarSteps(source)],
    ['read a picture in base64', () => avatarSteps(inlined)],
  ])('15 free their buffers at once: steps that %s', (_name, stepsOf) => {
    for (let count = 1; ; count += 1 + (count >> 4)) {
      const before = process.memoryUsage().arrayBuffers
      if (isDoneAfter(count, stepsOf())) return
      expect([count, process.memoryUsage().arrayBuffers - before < size / 2]).toEqual([count, true])
    }
  })
})
