import { type Static, Type } from '@sinclair/typebox'

/* The schemas are not in `plant.ts`, which commands load: TypeBox would take a quarter of the time in which a command starts. */

const name = Type.String({
  description: 'Name of the plant: 1 to 255 characters after trimming, no control characters.',
  examples: ['Monstera'],
})
const tag = Type.String({
  description: 'A tag for the type, with the same rule as the name.',
  examples: ['aroid'],
})

/** The query parameter that shows the caller's own plants with their ids. */
export const include = Type.Optional(
  Type.Literal('id', {
    description: '`id` adds the `id` for `/plants/{id}` to each of your own plants; shared plants never have one.',
    errorMessage: 'send "id", once',
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
  },
  { title: 'NewPlant', examples: [{ name: 'Monstera', id: 7, tag: 'aroid' }] },
)
export type NewPlant = Static<typeof NewPlant>

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
