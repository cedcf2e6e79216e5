import { type Message, textOf } from '../../openai/completion-request.ts'
import { withoutControls } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import type { Card } from '../cards/card.ts'
import type { LoreEntry } from '../lore/entry.ts'
import { type LoreKey, plainKey } from '../lore/keys.ts'
import { type Clock, clockAt } from '../macros/clock.ts'
import { expandMacros, hasMacro } from '../macros/macros.ts'
import type { ChatMacro, MacroCounter, MacroEnvironment, OwnField } from '../macros/values.ts'
import type { AuthorNote, CompositionRequest, Persona, PromptSettings } from './composition.ts'

/** The state of the macro expansions of one request: its random draws, its time, and the unknown macros found so far. */
export interface ExpansionContext {
  readonly random: () => number
  readonly now: Date
  /** The clock at `now`, made at its first use. */
  clock?: Clock
  readonly seed: string
  unknown: Set<string>
  readonly counter: MacroCounter
  /** Whether an expanded text may be different in the next request, so it must not be kept. */
  varied: boolean
  /** The card's own texts as macros insert them in this request. */
  readonly ownTexts: Map<string, OwnText>
  /** The user's persona, the value of `{{persona}}`; undefined when the request has none. */
  persona?: string
  /** The request's author's note with expanded macros; undefined when it is empty. */
  authorNote?: AuthorNote
  /** The greeting and the request's messages, except system messages. Empty until the greeting is known. */
  conversation: readonly Message[]
  /** The values of macros for messages, such as `{{lastMessage}}`. */
  readonly chatTexts: Map<ChatMacro, string>
}

/**
 * A new context.
 * @param conversationId with the card, the seed of `{{pick}}`, greetings and groups
 */
export function expansionContextOf(
  persona: Pick<Persona, 'name' | 'digest'>,
  { conversationId, now }: Pick<CompositionRequest, 'conversationId' | 'now'>,
  random: () => number,
): ExpansionContext {
  return {
    random,
    now,
    seed: seedOf(persona, conversationId),
    unknown: new Set(),
    varied: false,
    counter: { macros: 0, characters: 0 },
    ownTexts: new Map(),
    conversation: [],
    chatTexts: new Map(),
  }
}

/** The seed of `{{pick}}`, greetings and groups. */
export function seedOf({ name, digest }: Pick<Persona, 'name' | 'digest'>, conversationId = ''): string {
  return `${digest ?? name}/${conversationId}`
}

/** A text of the card as a macro inserts it. */
interface OwnText {
  readonly text: string
  readonly unknown: ReadonlySet<string>
  readonly varied: boolean
}

/** A value that is made from a card's texts, and the unknown macros in them. */
export interface Kept<T> {
  readonly made: T
  readonly unknown: ReadonlySet<string>
}

/** An expanded lore key is kept only if neither the character's name nor the user's name has more characters. */
const maxKeyNamesLength = 200
/** Units of work to put names into a key, besides its characters. */
const unitsOfKey = 150
/** Units of work to expand a text, besides its characters and macros. */
const unitsOfText = 20
/** The characters that count for a user, for a value and for an unknown macro, besides their texts. */
const lengthOfUser = 1500
const lengthOfValue = 100
const lengthOfName = 40
/** The most characters that are kept for one user of a card. When there are more, the next request begins with nothing. */
const maxKeptLength = 4 * 1024 ** 2
/** The most characters that are kept for all users of all cards: 32 MiB, because a character may take two bytes. */
const maxTotalLength = 16 * 1024 ** 2

/**
 * A card's texts with macros expanded for one character name and one user name. Texts that are the same in every request are
 * expanded once and kept: to expand them again would cost a whole completion 43 % more CPU time (bench/figures.md).
 */
export class CardTexts {
  readonly card: Card
  readonly settings: PromptSettings
  readonly names: { readonly character: string; readonly user: string }
  readonly kept: KeptLength
  readonly #texts = new Map<string | LoreEntry, Kept<string>>()
  readonly #keys = new Map<LoreKey, LoreKey>()
  readonly #numbers = new Map<LoreEntry, number>()
  readonly #seesCard: boolean

  constructor(
    card: Card,
    { name, userName }: Pick<Persona, 'name' | 'userName'>,
    settings: PromptSettings,
    seesCard: boolean,
    kept: KeptLength,
  ) {
    this.#seesCard = seesCard
    this.kept = kept
    this.card = card
    this.settings = settings
    this.names = {
      character: withoutControls(card.nickname.trim() || card.name.trim() || (name ?? '')),
      user: withoutControls(userName),
    }
  }

  /** A text with its macros expanded, trimmed. @param key identifies the text among the texts of this card */
  expand(
    key: string | LoreEntry,
    raw: string,
    context: ExpansionContext,
    more: Partial<MacroEnvironment> = {},
  ): string {
    const make = () => this.expandLine(raw, context, more).trim()
    return this.keep(this.#texts, key, context, make, (text) => text.length)
  }

  /** Whether nothing more can be kept. */
  get isFull(): boolean {
    return this.kept.length > maxKeptLength
  }

  /** Whether an expanded text is kept. A kept text is the same in all requests of this user. */
  isKept(key: string | LoreEntry): boolean {
    return this.#texts.has(key)
  }

  /**
   * A value made from the card's texts: the kept one, or a new one, which is kept unless it varies between requests.
   * @param lengthOf the memory of a value, in characters
   */
  keep<K, T>(all: Map<K, Kept<T>>, key: K, context: ExpansionContext, make: () => T, lengthOf: (made: T) => number): T {
    const known = all.get(key)
    if (known) {
      for (const name of known.unknown) context.unknown.add(name)
      return known.made
    }
    const { varied: variedBefore, unknown: unknownBefore } = context
    const unknown = new Set<string>()
    context.varied = false
    context.unknown = unknown
    const made = make()
    if (context.varied === false && this.#keeps(lengthOf(made) + unknown.size * lengthOfName)) {
      all.set(key, { made, unknown })
    }
    context.varied ||= variedBefore
    context.unknown = unknownBefore
    for (const name of unknown) unknownBefore.add(name)
    return made
  }

  /** Counts the characters of a value. @returns whether the value may be kept */
  #keeps(characters: number): boolean {
    if (characters > maxKeptLength || this.isFull) return false
    grow(this.kept, characters + lengthOfValue)
    return true
  }

  /** A text with its macros expanded, neither trimmed nor kept. */
  expandLine(raw: string, context: ExpansionContext, more: Partial<MacroEnvironment> = {}): string {
    const text = withoutControls(raw)
    spend(unitsOfText + (text.length >> 4))
    return hasMacro(text) ? expandMacros(text, this.#environment(context, more)) : text
  }

  /** The body of a lore entry in which the recursion searches for keys: the text that is sent, and the hidden keys. */
  recursionText(entry: LoreEntry, context: ExpansionContext): string {
    if (!/hidden_key/i.test(entry.body)) return this.expand(entry, entry.body, context)
    return this.expandLine(entry.body, { ...context, unknown: new Set() }, { showsHiddenKeys: true })
  }

  /**
   * A key of a lorebook with its macros expanded. If its only macros are names, and both names are short (`maxKeyNamesLength`),
   * the expanded key is kept, and its macros do not count towards the limit of macros.
   */
  expandKey(key: LoreKey, context: ExpansionContext): LoreKey {
    const known = this.#keys.get(key)
    if (known) return known
    const { character, user } = this.names
    if (!key.hasNamesOnly || Math.max(character.length, user.length) > maxKeyNamesLength) {
      return plainKey(this.expandLine(key.written, context).trim())
    }
    const written = key.written.replace(keyName, (_written, curly: string | undefined, angled: string | undefined) =>
      (curly ?? angled ?? '').toLowerCase() === 'user' ? user : character,
    )
    const made = plainKey(written.trim())
    // The key is also kept in lower case.
    if (this.#keeps(2 * written.length)) this.#keys.set(key, made)
    spend(unitsOfKey + written.length)
    return made
  }

  #environment(context: ExpansionContext, more: Partial<MacroEnvironment>): MacroEnvironment {
    context.clock ??= clockAt(context.now)
    const { seed, random, clock, counter, persona } = context
    const environment: MacroEnvironment = {
      ...this.names,
      seed,
      random,
      clock,
      counter,
      ...(persona === undefined ? {} : { persona }),
      chatText: (name) => chatText(name, context),
      onUnknown: (name) => context.unknown.add(name),
      onVarying: () => {
        context.varied = true
      },
      ...more,
    }
    const textOf = (field: OwnField): string => {
      if (!this.#seesCard) {
        context.unknown.add(field)
        return ''
      }
      const own = this.#ownText(field, context, environment)
      for (const name of own.unknown) context.unknown.add(name)
      context.varied ||= own.varied
      return own.text
    }
    return { ...environment, textOf }
  }

  /**
   * The value of a macro that inserts one of the card's own texts, such as `{{description}}`. The expanded value is kept for the
   * request. In the inserted text, such macros are empty, so that no text can contain itself.
   */
  #ownText(field: OwnField, context: ExpansionContext, environment: MacroEnvironment): OwnText {
    const key = `${field}/${environment.showsHiddenKeys ?? false}/${environment.original}/${environment.persona?.length}`
    const known = context.ownTexts.get(key)
    if (known) return known
    const unknown = new Set<string>()
    let varied = false
    const expanded = expandMacros(withoutControls(this.card[field]), {
      ...environment,
      onUnknown: (name) => unknown.add(name),
      onVarying: () => {
        varied = true
      },
    })
    const made = { text: expanded.trim(), unknown, varied }
    context.ownTexts.set(key, made)
    return made
  }

  /** A number that identifies an entry in keys. It stays the same as long as this `CardTexts` exists. */
  numberOf(entry: LoreEntry): number {
    const known = this.#numbers.get(entry)
    if (known !== undefined) return known
    this.#numbers.set(entry, this.#numbers.size)
    return this.#numbers.size - 1
  }
}

/** The value of a macro for a message of the conversation; empty if there is no such message. */
function chatText(macro: ChatMacro, { conversation, chatTexts }: ExpansionContext): string {
  const known = chatTexts.get(macro)
  if (known !== undefined || conversation.length === 0) return known ?? ''
  const made =
    macro === 'lastmessageid'
      ? String(conversation.length - 1)
      : withoutControls(newestText(conversation, speakerOf[macro]))
  chatTexts.set(macro, made)
  return made
}

/** The role whose newest message a macro inserts; undefined for any role. */
const speakerOf = { lastmessage: undefined, lastusermessage: 'user', lastcharmessage: 'assistant' } as const

function newestText(conversation: readonly Message[], speaker: Message['role'] | undefined): string {
  const message = conversation.findLast(({ role }) => speaker === undefined || role === speaker)
  return message ? textOf(message) : ''
}

const keyName = /\{\{(char|user)\}\}|<(char|bot|user)>/gi

/** The characters that are kept for one user of a card, and how to remove them. */
interface KeptLength {
  length: number
  readonly remove: () => void
}

/** The kept texts of each card, by user. A card that is no longer used is garbage, with its texts. */
const textsByCard = new WeakMap<Card, Map<string, CardTexts>>()
/** All kept texts, in the order of their last use. They are referred to weakly, because they refer to their card. */
const uses = new Set<KeptLength>()
let totalLength = 0

function grow(kept: KeptLength, characters: number): void {
  kept.length += characters
  if (uses.has(kept)) totalLength += characters
}

function forget(kept: KeptLength): void {
  if (uses.delete(kept)) totalLength -= kept.length
}

/** The texts of a persona's card, expanded for its user. They are kept until there are too many texts of others. */
export function textsOf(card: Card, persona: Pick<Persona, 'name' | 'userName'>, settings: PromptSettings): CardTexts {
  const users = textsByCard.get(card) ?? new Map<string, CardTexts>()
  textsByCard.set(card, users)
  const user = `${persona.userName}\n${persona.name ?? ''}`
  const known = users.get(user)
  const texts = known?.settings === settings && !known.isFull ? known : newTexts(card, persona, settings, users, user)
  if (known) forget(known.kept)
  uses.add(texts.kept)
  totalLength += texts.kept.length
  for (const oldest of uses) {
    if (totalLength <= maxTotalLength || oldest === texts.kept) break
    forget(oldest)
    oldest.remove()
  }
  return texts
}

function newTexts(
  card: Card,
  persona: Pick<Persona, 'name' | 'userName'>,
  settings: PromptSettings,
  users: Map<string, CardTexts>,
  user: string,
): CardTexts {
  const weakly = new WeakRef(users)
  const kept = { length: lengthOfUser + user.length, remove: () => void weakly.deref()?.delete(user) }
  const made = new CardTexts(card, persona, settings, true, kept)
  users.set(user, made)
  return made
}

/** Expands the texts of a request with the names of its persona. The expanded texts are kept only for this request. */
export function requestTextsOf(
  card: Card,
  persona: Pick<Persona, 'name' | 'userName'>,
  settings: PromptSettings,
  seesCard: boolean,
): CardTexts {
  return new CardTexts(card, persona, settings, seesCard, { length: 0, remove: () => {} })
}

/** A frozen system message. */
export function system(content: string): Message {
  return Object.freeze({ role: 'system' as const, content })
}
