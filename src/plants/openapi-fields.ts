/** What each route of the group says of its key. */
export const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ bearer: [] }]
/** What can go wrong on every route of the group. */
export const refusals = [400, 401, 403, 429, 500, 503]
