/** The end of an event. */
export const eventEnd = '\n\n'
/** The start of an event's line. */
export const dataPrefix = 'data: '

/** Fields of an event that may change from event to event without a difference for the service. */
const free = 'id|created|model|system_fingerprint|obfuscation|content|reasoning_content|reasoning|arguments'
/** The parts of a JSON text: a free field with a text or an integer, another string, or what is between strings. */
const part = new RegExp(String.raw`"(${free})"\s*:\s*("(?:[^"\\]|\\.)*"|\d+)|"(?:[^"\\]|\\.)*"|[^"]+`, 'g')
/** Any string and any integer of JSON, as patterns that never backtrack. */
const anyString = String.raw`"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\x00-\x1f]*)*"`
const anyInteger = String.raw`(?:0|[1-9]\d*)`

/** Longer events are parsed. */
const maxLength = 2000
/** The most forms that are searched for, and the most forms that are looked for in one stream. Most streams have one. */
const maxForms = 4
const maxAdded = 12
/** The most patterns that are kept for later streams. */
const maxPatterns = 20

/** Patterns of forms, the last used first: the streams of one upstream have the same forms. */
let patterns: readonly RegExp[] = []

interface Form {
  readonly pattern: RegExp
  /** Bytes of an event without the model's words. */
  readonly envelope: number
}

/**
 * The forms of events that may pass unread. An event has the form of an earlier event if the two differ only in free fields. If
 * the earlier event passed unchanged and the service needed nothing from it, the same holds for an event of its form. If each
 * event were parsed, a stream of 100 events would cost 51 % more CPU time (bench/figures.md).
 */
export class EventForms {
  #forms: Form[] = []
  #added = 0

  /**
   * Adds the form of an event.
   * @param event the event in Latin-1, with its end
   * @param words the length of the model's words in it
   */
  add(event: string, words: number): void {
    if (event.length > maxLength || this.#added >= maxAdded) return
    this.#added++
    const pattern = patterns.find((each) => isAt(each, event, 0)) ?? patternOf(event)
    if (pattern !== patterns[0])
      patterns = [pattern, ...patterns.filter((each) => each !== pattern)].slice(0, maxPatterns)
    this.#forms = [{ pattern, envelope: event.length - words }, ...this.#forms.slice(0, maxForms - 1)]
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
    for (const { pattern, envelope } of this.#forms) {
      while (isAt(pattern, text, end)) {
        words += Math.max(0, pattern.lastIndex - end - envelope)
        end = pattern.lastIndex
        events++
      }
      if (events > 0) break
    }
    return { end, events, words }
  }
}

function isAt(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at
  return pattern.test(text)
}

function patternOf(event: string): RegExp {
  let source = ''
  let end = 0
  for (const { index, 0: all, 1: name, 2: value = '' } of event.matchAll(part)) {
    if (name === undefined) continue
    const start = index + all.length - value.length
    source += escaped(event.slice(end, start)) + (value.startsWith('"') ? anyString : anyInteger)
    end = index + all.length
  }
  return new RegExp(source + escaped(event.slice(end)), 'y')
}

function escaped(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)
}
