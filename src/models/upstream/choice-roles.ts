import type { Chunk } from '../../openai/completion.ts'

/** Sees to it that each choice of a stream begins with a role: clients put a message together by it, and some servers send none. */
export class ChoiceRoles {
  readonly #begun = new Set<number>()

  /** Whether a choice has begun. */
  get hasBegun(): boolean {
    return this.#begun.size > 0
  }

  /** The chunk with the roles that it lacks; undefined where it lacks none. */
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
