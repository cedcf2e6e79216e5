/** How a key is sent to each route of plants. */
export const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ bearer: [] }]
/** The error statuses of every route of plants. */
export const refusals = [400, 401, 403, 429, 500, 503]
