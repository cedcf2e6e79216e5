import fc from 'fast-check'

/** How many accounts call, by numbers from 0 up; whoever may be named may also be the one after them. */
export const people = 4
export const who = fc.nat({ max: people - 1 })
export const id = fc.integer({ min: -2, max: 8 })
export const tag = fc.constantFrom('x', 'y', 'z', undefined)
export const limit = fc.constantFrom(1, 2, 3, 50)
const key = fc.constantFrom(undefined, undefined, 'a', 'b')

/** What accounts call, with so few ids, tags and keys that calls often meet. */
export const create = fc.record({ kind: fc.constant('create'), who, id: fc.option(id, { nil: undefined }), tag, key })
export const remove = fc.record({ kind: fc.constant('remove'), who, id })
export const find = fc.record({ kind: fc.constant('find'), who, id })
