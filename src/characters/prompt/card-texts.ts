import { type Message, textOf } from '../../openai/completion-request.ts'
import { withoutControls, withoutControlsInSteps } from '../../text.ts'
import type { Steps } from '../../work.ts'
import type { Card } from '../cards/card.ts'
import type { LoreEntry } from '../lore/entry.ts'
import { plainKey } from '../lore/keys.ts'
import type { LoreKey } from '../lore/scanned-text.ts'
import { type Clock, clockAt } from '../macros/clock.ts'
import { expandMacros, hasMacro } from '../macros/macros.ts'
import type { ChatMacro, MacroCounter, MacroEnvironment, OwnField } from '../macros/values.ts'
import type { AuthorNote } from './composition.ts'
import type { Persona, PromptSettings } from './settings.ts'

/** What only one request has: its draws, its time, and what was noticed on the way. */
export interface Run {
  readonly random: () => number
  readonly now: Date
  /** Tells that time; made when it is first asked for. */
  clock?: Clock
  readonly seed: string
  unknown: Set<string>
  readonly counter: MacroCounter
  /** Whether a text was expanded that may come out differently next time. */
  varied: boolean
  /** The card's own texts as macros of this request have them, by field. */
  readonly ownTexts: Map<string, OwnText>
  /** What the user is, as `{{persona}}` has it; undefined where the request does not say. */
  persona?: string
  /** The request's note, its macros expanded; undefined where there is nothing in it. */
  authorNote?: AuthorNote
  /** The greeting and the request's messages but the system's, once the greeting is known. */
  conversation: readonly Message[]
  /** What macros of this request have for its messages. */
  readonly chatTexts: Map<ChatMacro, string>
}

/**
 * A run at its beginning.
 * @param conversationId what draws turn on besides the card
 */
export function runOf(
  { name, digest }: Pick<Persona, 'name' | 'digest'>,
  {
    conversationId = '',
    random = Math.random,
    now = new Date(),
  }: { readonly conversationId?: string | undefined; readonly random?: () => number; readonly now?: Date },
): Run {
  return {
    random,
    now,
    seed: `${digest ?? name}/${conversationId}`,
    unknown: new Set(),
    varied: false,
    counter: { macros: 0, characters: 0 },
    ownTexts: new Map(),
    conversation: [],
    chatTexts: new Map(),
  }
}

/** One of the card's texts where a macro stands for it. */
interface OwnText {
  readonly text: string
  readonly unknown: ReadonlySet<string>
  readonly varied: boolean
}

interface Kept {
  readonly text: string
  readonly unknown: readonly string[]
}

/** Characters of a key's names beyond which it is expanded like any text. */
const maxKeyNamesLength = 200
/** What keeping a text, and a key, takes beside its characters. */
const charactersOfKept = 100
const charactersOfKey = 200
/** Units of work of putting names into a key. */
const unitsOfKey = 150
/** Characters of a text beyond which reading it is a step of its own. */
const maxStepLength = 4096

/** A card's texts with the names of one user in them; what does not vary is expanded once and kept. */
export class CardTexts {
  readonly card: Card
  readonly settings: PromptSettings
  readonly names: { readonly character: string; readonly user: string }
  readonly #kept = new Map<string | LoreEntry, Kept>()
  readonly #keys = new Map<LoreKey, LoreKey>()
  readonly #numbers = new Map<LoreEntry, number>()
  readonly #account: Account
  readonly #seesCard: boolean

  constructor(card: Card, name: string, userName: string, settings: PromptSettings, account: Account, seesCard = true) {
    this.#seesCard = seesCard
    this.card = card
    this.settings = settings
    this.names = {
      character: withoutControls(card.nickname.trim() || card.name.trim() || name),
      user: withoutControls(userName),
    }
    this.#account = account
  }

  /** A text with its macros expanded, trimmed. @param key what it is kept under */
  *expand(key: string | LoreEntry, raw: string, run: Run, more: Partial<MacroEnvironment> = {}): Steps<string> {
    const known = this.kept(key, run)
    if (known !== undefined) return known
    const unknown = new Set<string>()
    const variedBefore = run.varied
    run.varied = false
    const expanded = yield* this.#expandNow(raw, run, unknown, more)
    const text = expanded.trim()
    if (run.varied === false && this.#account.spend(text.length + charactersOfKept)) {
      this.#kept.set(key, { text, unknown: [...unknown] })
    }
    run.varied ||= variedBefore
    for (const name of unknown) run.unknown.add(name)
    return text
  }

  /** A text that was expanded before, for whatever request of this user; undefined where there is none. */
  kept(key: string | LoreEntry, run: Run): string | undefined {
    const known = this.#kept.get(key)
    if (!known) return undefined
    for (const name of known.unknown) run.unknown.add(name)
    return known.text
  }

  /** Whether a text came out the same for all requests of this user. */
  isKept(key: string | LoreEntry): boolean {
    return this.#kept.has(key)
  }

  /** A text with its macros expanded, for once; line breaks and blanks stay. */
  *expandLine(raw: string, run: Run): Steps<string> {
    return yield* this.#expandNow(raw, run, run.unknown, {})
  }

  /** A body as the recursion reads it: with the hidden keys, and without whatever else is not sent. */
  *recursionText(entry: LoreEntry, run: Run): Steps<string> {
    if (!/hidden_key/i.test(entry.body)) return yield* this.expand(entry, entry.body, run)
    return yield* this.#expandNow(entry.body, run, new Set(), { showsHiddenKeys: true })
  }

  /** A key of a lorebook with its macros expanded. One that has only the names in it is expanded once, and counts as no macro. */
  *expandKey(key: LoreKey, run: Run): Steps<LoreKey> {
    const known = this.#keys.get(key)
    if (known) return known
    const { character, user } = this.names
    if (key.hasNamesOnly !== true || Math.max(character.length, user.length) > maxKeyNamesLength) {
      const expanded = yield* this.#expandNow(key.written, run, run.unknown, {})
      return plainKey(expanded.trim())
    }
    const written = key.written.replace(keyName, (_written, curly: string | undefined, angled: string | undefined) =>
      (curly ?? angled ?? '').toLowerCase() === 'user' ? user : character,
    )
    const made = plainKey(written.trim())
    if (this.#account.spend(written.length + charactersOfKey)) this.#keys.set(key, made)
    yield unitsOfKey + written.length
    return made
  }

  *#expandNow(raw: string, run: Run, unknown: Set<string>, more: Partial<MacroEnvironment>): Steps<string> {
    const text = yield* withoutControlsInSteps(raw)
    if (text.length > maxStepLength) yield text.length >> 4
    if (!hasMacro(text)) return text
    run.clock ??= clockAt(run.now)
    const environment: MacroEnvironment = {
      ...this.names,
      seed: run.seed,
      random: run.random,
      clock: run.clock,
      counter: run.counter,
      ...(run.persona === undefined ? {} : { persona: run.persona }),
      chatText: (name) => chatText(name, run),
      onUnknown: (name) => unknown.add(name),
      onVarying: () => {
        run.varied = true
      },
      ...more,
    }
    const seen = new Map<OwnField, string>()
    const ownText = (field: OwnField) => this.#ownText(field, run, environment)
    const textOf = function* (field: OwnField): Steps<string> {
      const known = seen.get(field)
      if (known !== undefined) return known
      const own = yield* ownText(field)
      for (const name of own.unknown) unknown.add(name)
      run.varied ||= own.varied
      seen.set(field, own.text)
      return own.text
    }
    // biome-ignore lint/correctness/useYield: it is in the place of steps that are taken
    const unseen = function* (field: OwnField): Steps<string> {
      unknown.add(field)
      return ''
    }
    return yield* expandMacros(text, { ...environment, textOf: this.#seesCard ? textOf : unseen })
  }

  /**
   * What a macro puts in for one of the card's own texts, expanded once for a request. Macros for such texts in it
   * stand for nothing, so that none can hold itself.
   */
  *#ownText(field: OwnField, run: Run, environment: MacroEnvironment): Steps<OwnText> {
    const key = `${field}/${environment.showsHiddenKeys ?? false}/${environment.original}/${environment.persona?.length}`
    const known = run.ownTexts.get(key)
    if (known) return known
    const unknown = new Set<string>()
    let varied = false
    const expanded = yield* expandMacros(yield* withoutControlsInSteps(this.card[field]), {
      ...environment,
      onUnknown: (name) => unknown.add(name),
      onVarying: () => {
        varied = true
      },
    })
    const made = { text: expanded.trim(), unknown, varied }
    run.ownTexts.set(key, made)
    return made
  }

  /** What is kept under a key; undefined where nothing is. The run is told which of its macros are unknown. */
  known<T>(keeper: Keeper<T>, key: string | number, run: Run): T | undefined {
    const known = keeper.get(this, key)
    if (known !== undefined && known.unknown.size > 0) for (const name of known.unknown) run.unknown.add(name)
    return known?.made
  }

  /** Something made of these texts, kept under a key unless what it is made of varies. */
  *keep<T>(keeper: Keeper<T>, key: string | number, run: Run, make: () => Steps<T>): Steps<T> {
    const known = this.known(keeper, key, run)
    if (known !== undefined) return known
    const { varied, unknown: unknownBefore } = run
    run.varied = false
    run.unknown = new Set()
    const made = yield* make()
    const { unknown } = run
    if (run.varied === false) keeper.set(this, key, { made, unknown })
    run.varied ||= varied
    run.unknown = unknownBefore
    for (const name of unknown) unknownBefore.add(name)
    return made
  }

  /** A number of an entry, the same as long as these texts are kept. */
  numberOf(entry: LoreEntry): number {
    const known = this.#numbers.get(entry)
    if (known !== undefined) return known
    this.#numbers.set(entry, this.#numbers.size)
    return this.#numbers.size - 1
  }
}

/** What a macro has for the conversation; empty for a message that there is not. */
function* chatText(macro: ChatMacro, { conversation, chatTexts }: Run): Steps<string> {
  const known = chatTexts.get(macro)
  if (known !== undefined || conversation.length === 0) return known ?? ''
  const made =
    macro === 'lastmessageid'
      ? String(conversation.length - 1)
      : yield* withoutControlsInSteps(newestText(conversation, speakerOf[macro]))
  chatTexts.set(macro, made)
  return made
}

/** Whose newest message a macro is; anybody's without one. */
const speakerOf = { lastmessage: undefined, lastusermessage: 'user', lastcharmessage: 'assistant' } as const

function newestText(conversation: readonly Message[], speaker: Message['role'] | undefined): string {
  const message = conversation.findLast(({ role }) => speaker === undefined || role === speaker)
  return message ? textOf(message) : ''
}

const keyName = /\{\{(char|user)\}\}|<(char|bot|user)>/gi

/** Something that was made of a card's texts, and the macros in them that nobody knows. */
interface Made<T> {
  readonly made: T
  readonly unknown: ReadonlySet<string>
}

/** One kind of things that are kept; each has its own map, so that its type is known. */
export class Keeper<T> {
  readonly #most: number
  readonly #maps = new WeakMap<CardTexts, Map<string | number, Made<T>>>()

  /** @param most how many of them are kept at once */
  constructor(most: number) {
    this.#most = most
  }

  get(owner: CardTexts, key: string | number): Made<T> | undefined {
    return this.#maps.get(owner)?.get(key)
  }

  set(owner: CardTexts, key: string | number, value: Made<T>): void {
    const map = this.#maps.get(owner) ?? new Map<string | number, Made<T>>()
    this.#maps.set(owner, map)
    if (map.size >= this.#most) map.clear()
    map.set(key, value)
  }
}

/** What may be kept of one card for all its users, in characters; beyond it all is made anew. */
const maxKeptLength = 4 * 1024 ** 2
const maxKeptUsers = 100

/** Counts what is kept of a card. */
class Account {
  #spent = 0

  get isSpent(): boolean {
    return this.#spent >= maxKeptLength
  }

  /** Tells whether there is room to keep so many characters more, and takes it. */
  spend(characters: number): boolean {
    const fits = !this.isSpent
    this.#spent += characters
    return fits
  }
}

interface KeptUsers {
  readonly account: Account
  readonly texts: Map<string, CardTexts>
}

const keptByCard = new WeakMap<PromptSettings, WeakMap<Card, KeptUsers>>()

/** The texts of a persona; they are kept with its card. */
export function textsOf(card: Card, { name, userName }: Persona, settings: PromptSettings): CardTexts {
  const byCard = keptByCard.get(settings) ?? new WeakMap<Card, KeptUsers>()
  keptByCard.set(settings, byCard)
  let users = byCard.get(card)
  if (!users || users.account.isSpent || users.texts.size > maxKeptUsers) {
    users = { account: new Account(), texts: new Map() }
    byCard.set(card, users)
  }
  const key = `${userName}\n${name ?? ''}`
  const known = users.texts.get(key)
  if (known) return known
  const made = new CardTexts(card, name ?? '', userName, settings, users.account)
  users.texts.set(key, made)
  return made
}

/** Expands texts that a request brings, with the names of its persona; whatever is kept goes with the request. */
export function requestTextsOf(
  card: Card,
  { name, userName }: Persona,
  settings: PromptSettings,
  seesCard: boolean,
): CardTexts {
  return new CardTexts(card, name ?? '', userName, settings, new Account(), seesCard)
}

/** A system message. */
export function system(content: string): Message {
  return { role: 'system' as const, content }
}
