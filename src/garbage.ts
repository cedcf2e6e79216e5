import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Alarm, type Clock, quietClock } from './clock.ts'

/** Milliseconds of calm before garbage is collected: who sends much once often does so again. */
const calmMs = 5000

/**
 * Gives memory back to the system some seconds after it was last told that much is not needed any more: an engine that has
 * nothing to do collects no garbage, and would keep hundreds of megabytes after a burst of large requests.
 * @returns what tells it
 */
export function giveMemoryBackLater(clock: Clock = quietClock, collect: () => void = collectGarbage): () => void {
  let waiting: Alarm | undefined
  return () => {
    // While there is much to do the engine collects by itself.
    if (waiting) waiting.refresh()
    else
      waiting = clock.setTimeout(() => {
        waiting = undefined
        collect()
      }, calmMs)
  }
}

/** Collects all garbage, in some tens of milliseconds. The engine can do that, and hides it behind a flag. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc()')
}
