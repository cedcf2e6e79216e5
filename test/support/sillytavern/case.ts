/** A message of the conversation of a case. */
export interface Said {
  readonly role: 'user' | 'assistant'
  readonly content: string
}

/** A message of the prompt that a model gets. */
export interface Told {
  readonly role: string
  readonly content: string
  readonly name?: string | undefined
}

/** A world book, in addition to the character's book: as a world file of SillyTavern, or as a lorebook in the format of cards. */
export interface World {
  readonly file?: object
  readonly book?: object
}

/** One conversation with one card, for which the prompts of SillyTavern and of the service are compared. */
export interface Compared {
  readonly area: string
  readonly name: string
  /** The JSON document of the card. */
  readonly card: Readonly<Record<string, unknown>>
  /** The conversation without its greeting. */
  readonly messages: readonly Said[]
  /** The index of the greeting: 0 is `first_mes`, n is alternate greeting n. */
  readonly greeting?: number
  /** The greeting, if the client sends it to the service as the first message of the request. */
  readonly echo?: string
  /** Whether the last message is the beginning of a reply, which the model continues. */
  readonly isContinued?: boolean
  readonly userName?: string
  readonly persona?: string
  readonly note?: { readonly text: string; readonly depth: number; readonly role: 'system' | 'user' | 'assistant' }
  readonly worlds?: readonly World[]
  /** Settings of SillyTavern's world info that differ from the settings of other cases. */
  readonly tavernSettings?: Readonly<Record<string, number | boolean>>
  /** Why the service sends another prompt; absent if both must send the same prompt. */
  readonly otherwise?: string
}

/** A case without its area, which is the same for the whole list of cases. */
export type Case = Omit<Compared, 'area'>
