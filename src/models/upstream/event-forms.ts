/** The end of an event. */
export const eventEnd = '\n\n'
/** The start of an event's line. */
export const dataPrefix = 'data: '

/** Fields of an event that may change from event to event without a difference for the service. */
const free = 'id|created|model|system_fingerprint|obfuscation|content|reasoning_content|reasoning|arguments'
/** Fields with the model's words. */
const words: ReadonlySet<string> = new Set(['content', 'reasoning_content', 'reasoning', 'arguments'])
/** The parts of a JSON text: a free field with a text or an integer, another string, or what is between strings. */
const part = new RegExp(String.raw`"(${free})"(\s*:\s*)("(?:[^"\\]|\\.)*"|\d+)|"(?:[^"\\]|\\.)*"|[^"]+`, 'g')
/** Any string and any integer of JSON, as patterns that never backtrack. */
const anyString = String.raw`"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\x00-\x1f]*)*"`
const anyInteger = String.raw`(?:0|[1-9]\d*)`

/** Longer events are parsed. */
const maxLength = 2000
/** The most forms that are searched for, and the most forms that are made for one stream. Most streams have one. */
const maxForms = 4
const maxMade = 12
/** The most patterns that are kept for later streams. */
const maxPatterns = 200

const patterns = new Map<string, RegExp>()

interface Form {
  readonly pattern: RegExp
  /** Bytes of an event without the model's words. */
  readonly envelope: number
}

/**
 * The forms of events that may pass unread. An event has the form of an earlier event if the two differ only in free fields. If
 * the earlier event passed unchanged and the service needed nothing from it, the same holds for an event of its form. If each
 * event were parsed, a stream of 100 events would cost 51 % more CPU time (docs/performance.md).
 */
export class EventForms {
  #forms: Form[] = []
  #made = 0

  /** Adds the form of an event, in Latin-1 and with its end. */
  add(event: string): void {
    if (event.length > maxLength || this.#made >= maxMade) return
    this.#made++
    this.#forms = [formOf(event), ...this.#forms.slice(0, maxForms - 1)]
  }

  /** Forgets all forms: the same event would now mean something else. */
  clear(): void {
    this.#forms = []
  }

  /**
   * Finds consecutive whole events that may pass unread.
   * @param text the bytes in Latin-1
   * @returns the index after these events, their number, and the bytes of the model's words in them
   */
  run(text: string, start: number): { readonly end: number; readonly events: number; readonly words: number } {
    let end = start
    let events = 0
    let words = 0
    for (let form = this.#formAt(text, end); form; form = this.#formAt(text, end)) {
      words += Math.max(0, form.pattern.lastIndex - end - form.envelope)
      end = form.pattern.lastIndex
      events++
    }
    return { end, events, words }
  }

  #formAt(text: string, at: number): Form | undefined {
    return this.#forms.find(({ pattern }) => {
      pattern.lastIndex = at
      return pattern.test(text)
    })
  }
}

function formOf(event: string): Form {
  let envelope = event.length
  const source = event.replaceAll(part, (all, name?: string, colon = '', value = '') => {
    if (name === undefined) return escaped(all)
    if (!value.startsWith('"')) return escaped(`"${name}"${colon}`) + anyInteger
    if (words.has(name)) envelope -= value.length - 2
    return escaped(`"${name}"${colon}`) + anyString
  })
  let pattern = patterns.get(source)
  if (!pattern) {
    if (patterns.size >= maxPatterns) patterns.clear()
    pattern = new RegExp(source, 'y')
    patterns.set(source, pattern)
  }
  return { pattern, envelope }
}

function escaped(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)
}
