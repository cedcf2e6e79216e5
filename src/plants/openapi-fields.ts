/** How a key is sent to each route of the group. */
export const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ bearer: [] }]
/** The error statuses of every route of the group. */
export const refusals = [400, 401, 403, 429, 500, 503]
