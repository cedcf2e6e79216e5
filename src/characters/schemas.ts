import { Kind, Type, TypeRegistry } from '@sinclair/typebox'
import { type ListedCharacter, shownDigest } from './library/character.ts'

const text = (description: string) => Type.String({ description })
const origin = Type.Unsafe<'account' | 'folder' | 'starter'>({
  type: 'string',
  [Kind]: 'String',
  enum: ['account', 'folder', 'starter'],
  description: "Yours, from the operator's folder, or shipped with the service.",
})

const listed = {
  object: Type.Literal('character'),
  name: text('What `character` of a chat completion takes.'),
  origin,
  digest: text('SHA-256 of the card, for `name@sha256:…`.'),
  tags: Type.Array(Type.String()),
  creator: Type.String(),
  has_avatar: Type.Optional(
    Type.Boolean({
      description:
        'Whether `GET /characters/{name}/avatar` has a picture; missing of uploads from before 0.2.0 until a minute or more after the start.',
    }),
  ),
  created: Type.Optional(Type.Integer({ description: 'Unix seconds; only of uploads.' })),
  updated: Type.Optional(Type.Integer({ description: 'Unix seconds; only of uploads.' })),
}

const digest = 'sha256:0d0c4c7f5e2f4f0b8a3d8f1c5b6a79e8d7c6b5a4938271605f4e3d2c1b0a9988'

/** A character in a list. */
const ListedCharacterBody = Type.Object(listed, {
  title: 'ListedCharacter',
  examples: [
    {
      object: 'character',
      name: 'Fern',
      origin: 'starter',
      digest,
      tags: ['botanist'],
      creator: 'Conservatory',
      has_avatar: false,
    },
  ],
})

/** A page of characters. */
export const CharacterList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(ListedCharacterBody), has_more: Type.Boolean() },
  { title: 'CharacterList' },
)

/** What the answer to an upload tells. */
export const CharacterSummary = Type.Object(
  {
    object: Type.Literal('character'),
    name: Type.String(),
    digest: Type.String(),
    spec: Type.String(),
    greetings: Type.Integer(),
    lore_entries: Type.Integer(),
    regexes: Type.Integer(),
    refused_regexes: Type.Array(Type.String(), { description: 'Regular expressions that never match here, and why.' }),
    remote_assets: Type.Integer({ description: 'Assets with a web address; never fetched.' }),
    has_system_prompt: Type.Boolean(),
    model: Type.Union([Type.String(), Type.Null()], {
      description:
        'The model that the card asks for (`extensions.conservatory.model`), which is honoured where the operator has set `CHARACTER_MODELS=on`.',
    }),
    ignored: Type.Array(Type.String(), { description: 'Fields that change nothing here; kept for export.' }),
    never_fire: Type.Array(Type.String(), {
      description: 'Lore that is switched on and can never be in a prompt, each with the reason.',
    }),
    warnings: Type.Array(Type.String(), {
      description: 'What was not understood, or read otherwise than it may be meant; a sentence each.',
    }),
  },
  {
    title: 'CharacterSummary',
    examples: [
      {
        object: 'character',
        name: 'Fern',
        digest,
        spec: 'chara_card_v3',
        greetings: 2,
        lore_entries: 14,
        regexes: 3,
        refused_regexes: [],
        remote_assets: 0,
        has_system_prompt: true,
        model: null,
        ignored: ['extensions.x'],
        never_fire: ['entries[3] "Moss": no keys, and not constant'],
        warnings: [],
      },
    ],
  },
)

/** A character as whoever may talk to it sees it, and with `card` as whoever may read it does. */
export const CharacterBody = Type.Object(
  {
    ...listed,
    spec: Type.String(),
    creator_notes: text('For people, in the language of `Accept-Language` where the card has it.'),
    character_version: Type.String(),
    greetings: Type.Array(Type.Object({ index: Type.Integer(), text: Type.String() }), {
      description:
        'What `greeting` of a chat completion picks from, as the user "User" reads them. Prompts have the same texts: what a greeting picks by lot turns on the card, its index and `conversation_id`.',
    }),
    lore_entries: Type.Integer(),
    regexes: Type.Integer(),
    remote_assets: Type.Integer(),
    has_system_prompt: Type.Boolean(),
    model: Type.Union([Type.String(), Type.Null()], {
      description:
        'The model that the card asks for (`extensions.conservatory.model`), which is honoured where the operator has set `CHARACTER_MODELS=on`.',
    }),
    refused_regexes: Type.Optional(Type.Array(Type.String())),
    ignored: Type.Optional(Type.Array(Type.String())),
    never_fire: Type.Optional(Type.Array(Type.String())),
    warnings: Type.Optional(Type.Array(Type.String())),
    card: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: "What the model is told, as it stands in the card. Not shown for a card of the operator's folder.",
      }),
    ),
  },
  { title: 'Character' },
)

export const CharacterQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      description: 'Maximum number of characters to return; 100 without it.',
      minimum: 1,
      maximum: 1000,
      errorMessage: 'send a whole number from 1 to 1000, once',
      examples: [20],
    }),
  ),
  tag: Type.Optional(
    Type.String({
      description: "Only characters with this tag, whatever its letters' case.",
      examples: ['botanist'],
      errorMessage: 'send it once',
    }),
  ),
  after: Type.Optional(
    Type.String({ description: 'The name of the last character of the page before.', errorMessage: 'send it once' }),
  ),
})

export const CharacterPath = Type.Object({ name: Type.String({ examples: ['Fern'] }) })

/** The formats that a card can be exported in. */
const formats = ['json', 'v2', 'png', 'charx'] as const
type Format = (typeof formats)[number]

// One enum, and not a union of four constants, for whoever reads the OpenAPI document.
TypeRegistry.Set('ExportFormat', (_schema, value) => formats.some((format) => format === value))

export const CharacterFormat = Type.Object({
  format: Type.Optional(
    Type.Unsafe<Format>({
      [Kind]: 'ExportFormat',
      type: 'string',
      enum: formats,
      description: 'The card itself: V3 JSON, V2 JSON, PNG or CHARX.',
      errorMessage: `send one of ${formats.join(', ')}, once`,
    }),
  ),
  conversation_id: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'The `conversation_id` that chat completions will have: shows the greetings as these have them.',
      errorMessage: 'send a text of at most 200 characters, once',
    }),
  ),
})

const switches = ['true', 'false'] as const
TypeRegistry.Set('Switch', (_schema, value) => switches.some((each) => each === value))

export const UploadQuery = Type.Object({
  dry_run: Type.Optional(
    Type.Unsafe<(typeof switches)[number]>({
      [Kind]: 'Switch',
      type: 'string',
      enum: switches,
      description: '`true`: the card is read and nothing of it is kept.',
      errorMessage: 'send true or false, once',
    }),
  ),
})

// A body that is taken as it is: the bytes decide what it is, not a schema.
TypeRegistry.Set('CardBytes', (_schema, value) => value === undefined || Buffer.isBuffer(value))

/** The bytes of a card, in each of the content types that they may come with. */
export function cardBody(contentTypes: readonly string[]): Readonly<Record<string, unknown>> {
  const exampleOf = (contentType: string) => (contentType === 'application/json' ? { examples: [exampleCard] } : {})
  const schemaOf = (contentType: string) =>
    Type.Unsafe<Buffer | undefined>({ [Kind]: 'CardBytes', contentMediaType: contentType, ...exampleOf(contentType) })
  return { content: Object.fromEntries(contentTypes.map((type) => [type, { schema: schemaOf(type) }])) }
}

const exampleCard = {
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: {
    name: 'Moss',
    description: '{{char}} is a patient carpet of moss who speaks softly to {{user}}.',
    personality: 'Calm, damp, observant.',
    scenario: 'A north-facing wall after rain.',
    first_mes: 'Mind your step, {{user}}. Good. Now sit.',
    mes_example: '<START>\n{{user}}: Are you ever bored?\n{{char}}: I am waiting for the next century.',
    creator_notes: 'An example.',
    system_prompt: '',
    post_history_instructions: '',
    alternate_greetings: [],
    group_only_greetings: [],
    tags: ['plants'],
    creator: 'Conservatory',
    character_version: '1',
    extensions: {},
  },
}

/** A character in a list. */
export function listBody({ name, origin, digest, about, created, updated }: ListedCharacter) {
  const times = created === undefined ? {} : { created, updated }
  const { tags, creator, avatar } = about
  const picture = avatar === undefined ? {} : { has_avatar: avatar }
  return { object: 'character', name, origin, digest: shownDigest(digest), tags, creator, ...picture, ...times }
}
