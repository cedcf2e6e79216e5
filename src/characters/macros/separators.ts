import type { Steps } from '../../work.ts'
import { firstPairFrom, type Pair } from './braces.ts'

/** Indexes of the separators in a macro's argument, outside of nested macros. */
export interface Separators {
  readonly commas: readonly number[]
  /** Indexes of `::`. */
  readonly colons: readonly number[]
}

/** The number of characters that one step reads. */
const charactersOfStep = 1000

/** Finds the separators from `start` to `end`. A backslash escapes the next character, but not a nested macro. */
export function* separatorsIn(text: string, pairs: readonly Pair[], start: number, end: number): Steps<Separators> {
  const colons: number[] = []
  const commas: number[] = []
  let index = firstPairFrom(pairs, start)
  let looked = start
  for (let place = start; place < end; place++) {
    if (place - looked >= charactersOfStep) {
      yield place - looked
      looked = place
    }
    const pair = pairs[index]
    if (pair && pair.open === place && pair.close < end) {
      // The characters of the nested macro are not read here.
      looked += pair.close + 2 - place
      place = pair.close + 1
      index = firstPairFrom(pairs, place)
      continue
    }
    const character = text[place]
    if (character === '\\' && pair?.open !== place + 1) place++
    else if (character === ',') commas.push(place)
    else if (character === ':' && text[place + 1] === ':') colons.push(place++)
  }
  return { commas, colons }
}
