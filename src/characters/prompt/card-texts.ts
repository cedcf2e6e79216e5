import { type Message, textOf } from '../../openai/completion-request.ts'
import { withoutControls } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import type { Card } from '../cards/card.ts'
import type { LoreEntry } from '../lore/entry.ts'
import { type LoreKey, plainKey } from '../lore/keys.ts'
import { type Clock, clockAt } from '../macros/clock.ts'
import { expandMacros, hasMacro } from '../macros/macros.ts'
import type { ChatMacro, MacroCounter, MacroEnvironment, OwnField } from '../macros/values.ts'
import type { AuthorNote, CompositionRequest } from './composition.ts'
import { ExpandedTextCache, UserCache } from './expanded-text-cache.ts'
import type { Persona, PromptSettings } from './settings.ts'

/** The state of the macro expansions of one request: its random draws, its time, and the unknown macros found so far. */
export interface ExpansionContext {
  readonly random: () => number
  readonly now: Date
  /** The clock at `now`, made at its first use. */
  clock?: Clock
  readonly seed: string
  unknown: Set<string>
  readonly counter: MacroCounter
  /** Whether an expanded text may be different in the next request, so it must not be cached. */
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

/** An expanded lore key is cached only if neither the character's name nor the user's name has more characters. */
const maxKeyNamesLength = 200
/** Units of work to put names into a key, besides its characters. */
const unitsOfKey = 150
/** Units of work to expand a text, besides its characters and macros. */
const unitsOfText = 20

/**
 * A card's texts with macros expanded for one character name and one user name. Texts that are the same in every request are
 * expanded once and cached.
 */
export class CardTexts {
  readonly card: Card
  readonly settings: PromptSettings
  readonly names: { readonly character: string; readonly user: string }
  readonly #cache: ExpandedTextCache
  readonly #numbers = new Map<LoreEntry, number>()
  readonly #seesCard: boolean

  constructor(
    card: Card,
    name: string,
    userName: string,
    settings: PromptSettings,
    cache: ExpandedTextCache,
    seesCard = true,
  ) {
    this.#seesCard = seesCard
    this.card = card
    this.settings = settings
    this.names = {
      character: withoutControls(card.nickname.trim() || card.name.trim() || name),
      user: withoutControls(userName),
    }
    this.#cache = cache
  }

  /** A text with its macros expanded, trimmed. @param key the key in the cache */
  expand(
    key: string | LoreEntry,
    raw: string,
    context: ExpansionContext,
    more: Partial<MacroEnvironment> = {},
  ): string {
    const known = this.cachedText(key, context)
    if (known !== undefined) return known
    const unknown = new Set<string>()
    const variedBefore = context.varied
    context.varied = false
    const expanded = this.#expandNow(raw, context, unknown, more)
    const text = expanded.trim()
    if (context.varied === false) this.#cache.setText(key, { text, unknown: [...unknown] })
    context.varied ||= variedBefore
    for (const name of unknown) context.unknown.add(name)
    return text
  }

  /** The cached text of an earlier request of this user; undefined for none. Adds the text's unknown macros to the context. */
  cachedText(key: string | LoreEntry, context: ExpansionContext): string | undefined {
    const known = this.#cache.text(key)
    if (!known) return undefined
    for (const name of known.unknown) context.unknown.add(name)
    return known.text
  }

  /** Whether a text is cached. A cached text is the same in all requests of this user. */
  isCached(key: string | LoreEntry): boolean {
    return this.#cache.text(key) !== undefined
  }

  /** Subtracts a value from the card's budget before another cache keeps the value. @returns whether that cache may keep it */
  spend(characters: number): boolean {
    return this.#cache.spend(characters)
  }

  /** A text with its macros expanded, neither trimmed nor cached. */
  expandLine(raw: string, context: ExpansionContext, more: Partial<MacroEnvironment> = {}): string {
    return this.#expandNow(raw, context, context.unknown, more)
  }

  /** The body of a lore entry in which the recursion searches for keys: the text that is sent, and the hidden keys. */
  recursionText(entry: LoreEntry, context: ExpansionContext): string {
    if (!/hidden_key/i.test(entry.body)) return this.expand(entry, entry.body, context)
    return this.#expandNow(entry.body, context, new Set(), { showsHiddenKeys: true })
  }

  /**
   * A key of a lorebook with its macros expanded. If its only macros are names, and both names are short (`maxKeyNamesLength`),
   * the expanded key is cached, and its macros do not count towards the limit of macros.
   */
  expandKey(key: LoreKey, context: ExpansionContext): LoreKey {
    const known = this.#cache.key(key)
    if (known) return known
    const { character, user } = this.names
    if (!key.hasNamesOnly || Math.max(character.length, user.length) > maxKeyNamesLength) {
      const expanded = this.#expandNow(key.written, context, context.unknown, {})
      return plainKey(expanded.trim())
    }
    const written = key.written.replace(keyName, (_written, curly: string | undefined, angled: string | undefined) =>
      (curly ?? angled ?? '').toLowerCase() === 'user' ? user : character,
    )
    const made = plainKey(written.trim())
    this.#cache.setKey(key, made)
    spend(unitsOfKey + written.length)
    return made
  }

  #expandNow(raw: string, context: ExpansionContext, unknown: Set<string>, more: Partial<MacroEnvironment>): string {
    const text = withoutControls(raw)
    spend(unitsOfText + (text.length >> 4))
    if (!hasMacro(text)) return text
    context.clock ??= clockAt(context.now)
    const environment: MacroEnvironment = {
      ...this.names,
      seed: context.seed,
      random: context.random,
      clock: context.clock,
      counter: context.counter,
      ...(context.persona === undefined ? {} : { persona: context.persona }),
      chatText: (name) => chatText(name, context),
      onUnknown: (name) => unknown.add(name),
      onVarying: () => {
        context.varied = true
      },
      ...more,
    }
    const seen = new Map<OwnField, string>()
    const textOf = (field: OwnField): string => {
      const known = seen.get(field)
      if (known !== undefined) return known
      const own = this.#ownText(field, context, environment)
      for (const name of own.unknown) unknown.add(name)
      context.varied ||= own.varied
      seen.set(field, own.text)
      return own.text
    }
    const unseen = (field: OwnField): string => {
      unknown.add(field)
      return ''
    }
    return expandMacros(text, { ...environment, textOf: this.#seesCard ? textOf : unseen })
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

  /** A number that identifies an entry in cache keys. It stays the same as long as this `CardTexts` exists. */
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

/** The texts of a persona's card, expanded for its user. They are cached at most as long as the card object exists. */
export function textsOf(
  card: Card,
  { name, userName }: Pick<Persona, 'name' | 'userName'>,
  settings: PromptSettings,
): CardTexts {
  return textsByUser.get(settings, card, `${userName}\n${name ?? ''}`, (cache) => {
    return new CardTexts(card, name ?? '', userName, settings, cache)
  })
}

const textsByUser = new UserCache<CardTexts>()

/** Expands the texts of a request with the names of its persona. The expanded texts are cached only for this request. */
export function requestTextsOf(
  card: Card,
  { name, userName }: Pick<Persona, 'name' | 'userName'>,
  settings: PromptSettings,
  seesCard: boolean,
): CardTexts {
  return new CardTexts(card, name ?? '', userName, settings, new ExpandedTextCache(), seesCard)
}

/** A frozen system message. */
export function system(content: string): Message {
  return Object.freeze({ role: 'system' as const, content })
}
