import { Kind, Type, TypeRegistry } from '@sinclair/typebox'
import { choice } from '../http/openapi-fields.ts'
import { exportFormats } from './cards/source.ts'
import { type ListedCharacter, shownDigest } from './library/character.ts'

const text = (description: string) => Type.String({ description })
const origin = choice(['account', 'folder', 'starter'], {
  description: "The source of the character: your upload, the operator's folder, or the service itself.",
})

const listed = {
  object: Type.Literal('character'),
  name: text('The value for `character` of a chat completion.'),
  origin,
  digest: text('The SHA-256 of the card, for `name@sha256:…`.'),
  tags: Type.Array(Type.String(), {
    description: 'The first tags of the card: at most 100, with at most 2,000 characters together.',
  }),
  creator: text('The creator of the card; at most 200 characters, and then `…`.'),
  has_avatar: Type.Optional(
    Type.Boolean({
      description:
        'Whether `GET /characters/{name}/avatar` has a picture. Missing for an upload from before 0.2.0 until the service has checked it, a minute or more after the start.',
    }),
  ),
  created: Type.Optional(
    Type.Integer({ description: 'The time of the first upload in Unix seconds; only uploads have it.' }),
  ),
  updated: Type.Optional(
    Type.Integer({ description: 'The time of the last upload in Unix seconds; only uploads have it.' }),
  ),
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

/** Facts of a card for every caller. */
const facts = {
  lore_entries: Type.Integer(),
  regexes: Type.Integer(),
  remote_assets: Type.Integer({
    description: 'The number of assets with a web address; the service never fetches them.',
  }),
  has_system_prompt: Type.Boolean(),
  model: Type.Union([Type.String(), Type.Null()], {
    description:
      'The model in the card (`extensions.conservatory.model`), which is used if the operator has set `CHARACTER_MODELS=on` and the request names the model `default`.',
  }),
}

/** The reply to an upload. */
export const CharacterSummary = Type.Object(
  {
    object: Type.Literal('character'),
    name: Type.String(),
    digest: Type.String(),
    spec: Type.String(),
    greetings: Type.Integer(),
    ...facts,
    refused_regexes: Type.Array(Type.String(), { description: 'Refused regular expressions, which match nothing.' }),
    ignored: Type.Array(Type.String(), { description: 'Fields without effect in this service; exports keep them.' }),
    never_fire: Type.Array(Type.String(), {
      description: 'Enabled lore that can never be in a prompt, each entry with the reason.',
    }),
    warnings: Type.Array(Type.String(), {
      description: 'Parts of the card that were not understood, or that may mean something else; a sentence each.',
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

/** The reply for one character. Only keys that may read the card get `card` and the lists of faults. */
export const CharacterBody = Type.Object(
  {
    ...listed,
    spec: Type.String(),
    creator_notes: text("The creator's notes for people, in the language of `Accept-Language` if the card has it."),
    character_version: Type.String(),
    greetings: Type.Array(Type.Object({ index: Type.Integer(), text: Type.String() }), {
      description:
        'The greetings for `greeting` of a chat completion, with `user_name` as the name of the user. Prompts have the same texts, because random choices in a greeting depend only on the card, the index of the greeting and `conversation_id`.',
    }),
    ...facts,
    refused_regexes: Type.Optional(Type.Array(Type.String())),
    ignored: Type.Optional(Type.Array(Type.String())),
    never_fire: Type.Optional(Type.Array(Type.String())),
    warnings: Type.Optional(Type.Array(Type.String())),
    card: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          "The texts for the model, unchanged from the card. Only keys with the scope `admin` get them for a card of the operator's folder.",
      }),
    ),
  },
  { title: 'Character' },
)

export const CharacterQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      description: 'The maximum number of characters; the default is 100.',
      minimum: 1,
      maximum: 1000,
      errorMessage: 'send a whole number from 1 to 1000, once',
      examples: [20],
    }),
  ),
  tag: Type.Optional(
    Type.String({
      description: 'Only characters with this tag, in any letter case.',
      examples: ['botanist'],
      errorMessage: 'send it once',
    }),
  ),
  after: Type.Optional(
    Type.String({ description: 'The name of the last character of the previous page.', errorMessage: 'send it once' }),
  ),
})

export const CharacterPath = Type.Object({ name: Type.String({ examples: ['Fern'] }) })

export const CharacterFormat = Type.Object({
  format: Type.Optional(
    choice(exportFormats, {
      description: 'The card itself: V3 JSON, V2 JSON, PNG or CHARX.',
      errorMessage: `send one of ${exportFormats.join(', ')}, once`,
    }),
  ),
  conversation_id: Type.Optional(
    Type.String({
      maxLength: 200,
      description:
        'The `conversation_id` of later chat completions. The greetings in the reply then have the same texts as in these completions.',
      errorMessage: 'send a text of at most 200 characters, once',
    }),
  ),
  user_name: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'The name of the user in the greetings, as in a chat completion; the default is "User".',
      errorMessage: 'send a text of at most 200 characters, once',
      examples: ['Mara'],
    }),
  ),
})

export const UploadQuery = Type.Object({
  dry_run: Type.Optional(
    choice(['true', 'false'], {
      description: '`true` checks the card and stores nothing.',
      errorMessage: 'send true or false, once',
    }),
  ),
})

// The body of an upload is not validated by a schema, because its bytes decide the format.
TypeRegistry.Set('CardBytes', (_schema, value) => value === undefined || Buffer.isBuffer(value))

/** The OpenAPI body of a card, with each of its content types. */
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

/** The body of a character in a list. */
export function listBody({ name, origin, digest, about, created, updated }: ListedCharacter) {
  const times = created === undefined ? {} : { created, updated }
  const { tags, creator, avatar } = about
  const picture = avatar === undefined ? {} : { has_avatar: avatar }
  return { object: 'character', name, origin, digest: shownDigest(digest), tags, creator, ...picture, ...times }
}
