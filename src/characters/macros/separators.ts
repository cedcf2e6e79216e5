import { spend } from '../../work/fuel.ts'
import { firstPairFrom, type Pair } from './braces.ts'

/** Indexes of the separators in a macro's argument, outside of nested macros. */
export interface Separators {
  readonly commas: readonly number[]
  /** Indexes of `::`. */
  readonly colons: readonly number[]
}

/** Finds the separators from `start` to `end`. A backslash escapes the next character, but not a nested macro. */
export function separatorsIn(text: string, pairs: readonly Pair[], start: number, end: number): Separators {
  const colons: number[] = []
  const commas: number[] = []
  let index = firstPairFrom(pairs, start)
  let read = 0
  for (let place = start; place < end; place++) {
    read++
    const pair = pairs[index]
    if (pair && pair.open === place && pair.close < end) {
      place = pair.close + 1
      index = firstPairFrom(pairs, place)
      continue
    }
    const character = text[place]
    if (character === '\\' && pair?.open !== place + 1) place++
    else if (character === ',') commas.push(place)
    else if (character === ':' && text[place + 1] === ':') colons.push(place++)
  }
  spend(read)
  return { commas, colons }
}
