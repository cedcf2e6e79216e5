import { type Static, Type } from '@sinclair/typebox'

/* Apart from `plant.ts`: no command needs TypeBox, which takes a quarter of the time in which one starts. */

const name = Type.String({
  description: 'Name of the plant: 1 to 255 characters after trimming, no control characters.',
  examples: ['Monstera'],
})
const tag = Type.String({
  description: 'Tag that specifies the type; the same rule as for the name.',
  examples: ['aroid'],
})

/** The query parameter by which the caller's own plants come with their ids. */
export const include = Type.Optional(
  Type.Literal('id', {
    description:
      'Adds the `id`, by which `/plants/{id}` finds it, to each of your own plants; never to those of others.',
    errorMessage: 'send "id", once',
  }),
)

/** The query of the routes that answer with one plant. */
export const OnePlantQuery = Type.Object({ include })

/** A plant as callers see it. */
export const Plant = Type.Object(
  {
    id: Type.Optional(
      Type.Integer({
        description: 'With `include=id`, and of your own plants alone.',
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

/** A plant as callers send it (spec, section 4.2). */
export const NewPlant = Type.Object(
  {
    name,
    id: Type.Optional(
      Type.Integer({
        description: 'Unique within the account. Left out: one more than the highest id there is, at least 1.',
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

/** The error body of the plants interface (spec, section 2). */
export const PlantError = Type.Object(
  {
    error: Type.Integer({ format: 'int32', description: 'The HTTP status again.' }),
    message: Type.String({ description: 'What to change.' }),
  },
  { title: 'PlantError', examples: [{ error: 400, message: 'The field "name" is missing. Send it.' }] },
)
