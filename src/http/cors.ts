import cors, { type FastifyCorsOptionsDelegateCallback } from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import { ApiError } from '../errors.ts'

/** The headers of ours, and of the field, that a page may read. */
export const exposedHeaders: readonly string[] = [
  'Link',
  'ETag',
  'Location',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'X-Character',
  'X-Dropped',
  'X-Export-Losses',
  'X-Ignored-Params',
  'X-Model',
  'X-RateLimit-Limit-Requests',
  'X-RateLimit-Limit-Tokens',
  'X-RateLimit-Remaining-Requests',
  'X-RateLimit-Remaining-Tokens',
  'X-RateLimit-Reset-Requests',
  'X-RateLimit-Reset-Tokens',
  'X-Request-Id',
  'X-Upstream-Truncated',
]

/**
 * Lets pages of other origins call every route but `/metrics` (Fetch Standard, section 3.2). A preflight is answered before a key
 * is looked for, since browsers send none with it; the headers that it asks for are allowed by their names.
 * @param origins such as `https://a.example`; `*` alone is all of them
 */
export async function allowOrigins(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  const allowed = {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    exposedHeaders: [...exposedHeaders],
    maxAge: 600,
    // Its refusal would not be in our shape.
    strictPreflight: false,
  }
  const optionsOf: FastifyCorsOptionsDelegateCallback = ({ method, url, routeOptions }, done) => {
    const isPreflight = method === 'OPTIONS'
    const path = isPreflight ? pathOf(url) : routeOptions.url
    if (path !== '/metrics') return done(null, allowed)
    return isPreflight ? done(noPages()) : done(null, { origin: false })
  }
  await app.register(cors, () => optionsOf)
}

/** The path of a request as the router reads it, which knows every preflight by one name. */
function pathOf(url: string): string {
  return decodeURIComponent(url.split(/[?#]/, 1)[0] ?? '')
}

function noPages(): ApiError {
  const message = 'This path does not answer that method, nor pages of other origins. Use GET, HEAD.'
  return new ApiError(405, 'method_not_allowed', message, { headers: { allow: 'GET, HEAD' } })
}
