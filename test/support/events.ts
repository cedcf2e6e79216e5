import type { ModelEvent } from '../../src/models/model.ts'
import type { Chunk } from '../../src/openai/completion.ts'

/** The chunks of a group of events that a model of ours made: none of them passes unread. */
export function chunksIn(events: readonly ModelEvent[]): readonly Chunk[] {
  return events.map((event) => {
    if ('chunk' in event) return event.chunk
    throw new Error('an event passes unread')
  })
}
