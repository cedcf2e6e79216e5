import { Kind, type Static, type TSchema, Type, TypeRegistry } from '@sinclair/typebox'
import { choice } from '../http/openapi-fields.ts'
import { photoTypes } from './photo.ts'

/* The schemas are not in `plant.ts`, which commands load: TypeBox would take a quarter of the time in which a command starts. */

const name = Type.String({
  description: 'Name of the plant: 1 to 255 characters after trimming, no control characters.',
  examples: ['Monstera'],
})
const tag = Type.String({
  description: 'A tag for the type, with the same rule as the name.',
  examples: ['aroid'],
})
const words = { errorMessage: 'send a text' }
const species = Type.String({
  ...words,
  description: 'The species, with the same rule as the name.',
  examples: ['Monstera deliciosa'],
})
const place = Type.String({
  ...words,
  description: 'Where the plant is, with the same rule as the name.',
  examples: ['Living room'],
})
const light = Type.String({
  ...words,
  description: 'How much light the plant has, with the same rule as the name.',
  examples: ['Bright, no direct sun'],
})
const acquired = Type.String({
  description: 'The day since which you have the plant, `YYYY-MM-DD`.',
  errorMessage: 'send a day such as 2026-04-01',
  examples: ['2026-04-01'],
})
const notes = Type.String({
  ...words,
  description: 'Notes of 1 to 10,000 characters after trimming; line breaks and tabs are the only control characters.',
  examples: ['From a cutting of the plant at work.'],
})
const archived = Type.Boolean({
  description: 'True for a plant that is gone.',
  errorMessage: 'send true or false, not in quotes',
  examples: [true],
})

/** What a caller may set of a plant besides name, id and tag. */
const details = {
  species: Type.Optional(species),
  place: Type.Optional(place),
  light: Type.Optional(light),
  acquired: Type.Optional(acquired),
  notes: Type.Optional(notes),
  archived: Type.Optional(archived),
}

/** What `include` may name. */
export const includable = ['id', 'details', 'care', 'due'] as const
export type Included = (typeof includable)[number]

/** Whether a reply shows no more of a plant than its id, name and tag. */
export function isBare(include: string | undefined): boolean {
  return include === undefined || include === 'id'
}

/** The names in a valid value of `include`. */
export function includedIn(include: string | undefined): ReadonlySet<Included> {
  return new Set(includable.filter((each) => include?.split(',').includes(each)))
}

// TypeBox has no kind for a list in one text.
TypeRegistry.Set<{ items: { enum: readonly unknown[] } }>('Names', ({ items }, value) => {
  const names = typeof value === 'string' ? value.split(',') : []
  return names.length > 0 && new Set(names).size === names.length && names.every((each) => items.enum.includes(each))
})

/** The query parameter that adds fields to plants. */
export const include = Type.Optional(
  Type.Unsafe<string>({
    [Kind]: 'Names',
    type: 'array',
    items: { type: 'string', enum: includable },
    uniqueItems: true,
    explode: false,
    description:
      'What is added to each plant, with commas between the names. `id`: the `id` for `/plants/{id}`, of your own plants alone. `details`: what is set of species, place, light, acquired, notes and archived, with `created`, `updated` and `photo`. `care`: its schedules. `due`: when it needs care next.',
    errorMessage: 'send id, details, care or due, each at most once, with commas between them, and the parameter once',
  }),
)

/** The query of routes that reply with one plant. */
export const OnePlantQuery = Type.Object({ include })

/** The path of one plant. */
export const PlantPath = Type.Object({
  id: Type.Integer({
    examples: [1],
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    errorMessage: 'send a whole number from -(2^53-1) to 2^53-1',
  }),
})

/** A photo as replies name it. */
export const PhotoFacts = Type.Object(
  {
    type: choice(photoTypes, { description: 'The format.', examples: ['image/jpeg'] }),
    bytes: Type.Integer({ description: 'The size of the stored photo.' }),
    digest: Type.String({
      description:
        '`sha256:` and 64 hexadecimal digits, of the stored photo; `GET /plants/{id}/photo` has it as its `ETag`.',
    }),
  },
  { title: 'PhotoFacts' },
)

const seconds = (what: string) =>
  Type.Integer({ description: `${what}, in Unix seconds; only with \`include=details\`.` })

/** A plant in replies. */
export const Plant = Type.Object(
  {
    id: Type.Optional(
      Type.Integer({
        description: 'The id; only with `include=id`, and only for your own plants.',
        minimum: Number.MIN_SAFE_INTEGER,
        maximum: Number.MAX_SAFE_INTEGER,
      }),
    ),
    name,
    tag: Type.Optional(tag),
    ...details,
    created: Type.Optional(seconds('When the plant was added')),
    updated: Type.Optional(seconds('When the plant was changed last')),
    photo: Type.Optional(PhotoFacts),
  },
  { title: 'Plant', examples: [{ name: 'Monstera', tag: 'aroid' }] },
)
export type Plant = Static<typeof Plant>

/** A plant in requests. */
export const NewPlant = Type.Object(
  {
    name,
    id: Type.Optional(
      Type.Integer({
        description: 'The id, unique within the account. The default is the highest id plus one, at least 1.',
        minimum: Number.MIN_SAFE_INTEGER,
        maximum: Number.MAX_SAFE_INTEGER,
        errorMessage: 'send a whole number from -(2^53-1) to 2^53-1, not in quotes',
        examples: [7],
      }),
    ),
    tag: Type.Optional(tag),
    ...details,
  },
  { title: 'NewPlant', examples: [{ name: 'Monstera', id: 7, tag: 'aroid' }] },
)
export type NewPlant = Static<typeof NewPlant>

/** A field of a change that null removes. */
function removable<T extends TSchema>(schema: T) {
  return Type.Optional(
    Type.Union([schema, Type.Null()], {
      description: `${schema.description} \`null\` removes it.`,
      errorMessage: `send ${schema['type'] === 'boolean' ? 'true, false' : 'a text'}, or null to remove it`,
    }),
  )
}

/** A change of a plant (RFC 7396): fields that are missing stay as they are. */
export const PlantChange = Type.Object(
  {
    name: Type.Optional(Type.String({ ...name, errorMessage: 'send a text: each plant has a name' })),
    tag: removable(tag),
    species: removable(species),
    place: removable(place),
    light: removable(light),
    acquired: removable(acquired),
    notes: removable(notes),
    archived: removable(archived),
  },
  { title: 'PlantChange', examples: [{ place: 'Bedroom', notes: null }] },
)
export type PlantChange = Static<typeof PlantChange>

/** The reply with a list, which is a CSV file if the query asks for one. */
export function listOrCsv(list: TSchema): Readonly<Record<string, unknown>> {
  const content = { 'application/json': { schema: list }, 'text/csv': { schema: Type.String() } }
  return { description: 'The list; with `format=csv` a CSV file.', content }
}

/** The reply without a body to a request whose `If-None-Match` has the present `ETag`. */
export const NotModified = Type.Null({ description: 'Nothing has changed since the `ETag` in `If-None-Match`.' })

/** The error body of the plants interface. */
export const PlantError = Type.Object(
  {
    error: Type.Integer({ format: 'int32', description: 'The HTTP status.' }),
    message: Type.String({ description: 'A sentence that says what to change.' }),
  },
  { title: 'PlantError', examples: [{ error: 400, message: 'The field "name" is missing. Send it.' }] },
)

/** How a key is sent to each route of plants. */
export const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ bearer: [] }]
/** The error statuses of every route of plants. */
export const refusals = [400, 401, 403, 429, 500, 503]
