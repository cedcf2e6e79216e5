/** A message of a conversation that is played. */
export interface Said {
  readonly role: 'user' | 'assistant'
  readonly content: string
}

/** A message that a model is sent. */
export interface Told {
  readonly role: string
  readonly content: string
  readonly name?: string | undefined
}

/** A world book beside the character's: as SillyTavern's own file, or as a lorebook of a card. */
export interface World {
  readonly file?: object
  readonly book?: object
}

/** One conversation with one card, which SillyTavern and the service are both asked about. */
export interface Compared {
  readonly area: string
  readonly name: string
  /** The card file. */
  readonly card: Readonly<Record<string, unknown>>
  /** The conversation without its greeting. */
  readonly messages: readonly Said[]
  /** 0 for `first_mes`, n for alternate greeting n. */
  readonly greeting?: number
  /** The greeting as a client sends it again, where the service's request begins with it. */
  readonly echo?: string
  /** Whether the last message, the character's, is to be continued. */
  readonly isContinued?: boolean
  readonly userName?: string
  readonly persona?: string
  readonly note?: { readonly text: string; readonly depth: number; readonly role: 'system' | 'user' | 'assistant' }
  readonly worlds?: readonly World[]
  /** Settings of SillyTavern's world info that differ from those of the other cases. */
  readonly tavernSettings?: Readonly<Record<string, number | boolean>>
  /** Why the service does otherwise; absent where both must send the same. */
  readonly otherwise?: string
}

/** A case whose area is told by the list that it is in. */
export type Case = Omit<Compared, 'area'>
