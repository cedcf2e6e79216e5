import type { NameRule, ProviderRules } from './provider-rules.ts'

/** Names in the form that a provider takes. A name that it takes stays as it is. */
class SafeNames {
  readonly #rule: NameRule | undefined
  readonly #ownNames = new Map<string, string>()
  /** The last number behind each name that was taken. */
  readonly #numbers = new Map<string, number>()

  constructor(rule: NameRule | undefined) {
    this.#rule = rule
  }

  /** A name that was not used before. */
  add(own: string): string {
    const rule = this.#rule
    if (!rule) return own
    const begun = own.replace(rule.refused, '_').slice(0, rule.maxLength)
    const base = rule.taken.test(begun) ? begun : `_${begun}`.slice(0, rule.maxLength)
    let name = base
    for (let number = this.#numbers.get(base) ?? 1; this.#ownNames.has(name); this.#numbers.set(base, number)) {
      const end = `_${++number}`
      name = base.slice(0, rule.maxLength - end.length) + end
    }
    this.#ownNames.set(name, own)
    return name
  }

  isTaken(own: string): boolean {
    return this.#rule === undefined || this.#rule.taken.test(own)
  }

  ownOf(name: string): string {
    return this.#ownNames.get(name) ?? name
  }
}

/** The names of tools and the ids of calls of one request, in the form that the provider takes. */
export class CallNames {
  readonly #tools: SafeNames
  readonly #byTool = new Map<string, string>()
  readonly #calls: SafeNames
  /** The ids of calls whose results have not come, by the ids in the request. */
  readonly #open = new Map<string, string[]>()

  /** @param tools the names of the request's tools */
  constructor({ toolName, callId }: Pick<ProviderRules, 'toolName' | 'callId'> = {}, tools: readonly string[] = []) {
    this.#tools = new SafeNames(toolName)
    this.#calls = new SafeNames(callId)
    // A name that the provider takes must not become the name of another tool.
    for (const name of tools) if (this.#tools.isTaken(name)) this.tool(name)
  }

  /** The provider's name for a tool. */
  tool(own: string): string {
    const name = this.#byTool.get(own) ?? this.#tools.add(own)
    this.#byTool.set(own, name)
    return name
  }

  /** The request's name for a tool that the provider's answer calls. */
  ownTool(name: string): string {
    return this.#tools.ownOf(name)
  }

  /** The provider's id for a call. Calls with the same id get different ids. */
  call(own: string): string {
    const id = this.#calls.add(own)
    const open = this.#open.get(own)
    if (open) open.push(id)
    else this.#open.set(own, [id])
    return id
  }

  /** The id of the first call with this id that has no result yet. */
  result(own: string): string {
    return this.#open.get(own)?.shift() ?? own
  }
}
