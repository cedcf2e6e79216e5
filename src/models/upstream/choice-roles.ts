import type { Chunk } from '../../openai/completion.ts'

/** Adds a missing role to the first chunk of each choice: some servers send no role, but clients need the role of a message. */
export class ChoiceRoles {
  readonly #begun = new Set<number>()

  /** Whether a choice has begun. */
  get hasBegun(): boolean {
    return this.#begun.size > 0
  }

  /** Returns the chunk with the missing roles; undefined if no role is missing. */
  mend(chunk: Chunk): Chunk | undefined {
    if (chunk.choices.every(({ index }) => this.#begun.has(index))) return undefined
    let isLacking = false
    const choices = chunk.choices.map((choice) => {
      const lacks = !this.#begun.has(choice.index) && !choice.delta?.role
      this.#begun.add(choice.index)
      isLacking ||= lacks
      return lacks ? { ...choice, delta: { ...choice.delta, role: 'assistant' as const } } : choice
    })
    return isLacking ? { ...chunk, choices } : undefined
  }
}
