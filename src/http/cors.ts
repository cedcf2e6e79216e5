import cors, { type FastifyCorsOptionsDelegateCallback } from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import { ApiError } from '../errors.ts'

/** Response headers that pages of other origins may read: the service's own and common ones. */
export const exposedHeaders: readonly string[] = [
  'Link',
  'ETag',
  'Idempotency-Replayed',
  'Location',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'X-Character',
  'X-Character-Unknown',
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
  'X-Should-Retry',
  'X-Upstream-Truncated',
]

/**
 * Allows pages of other origins to call every route except `/metrics` (Fetch Standard, "CORS protocol"). A preflight is answered
 * before the key is checked, because browsers send no key with a preflight. All headers that a preflight names are allowed.
 * @param origins the allowed origins, such as `https://a.example`. `*` allows all origins
 */
export async function allowOrigins(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  const allowed = {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    exposedHeaders: [...exposedHeaders],
    maxAge: 600,
    // With `true`, the package would refuse some preflights with another error body than ours.
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

/** The path of a preflight, read from the URL, since the router has one route for all preflights. */
function pathOf(url: string): string {
  return decodeURIComponent(url.split(/[?#]/, 1)[0] ?? '')
}

function noPages(): ApiError {
  const message = 'This path does not support that method, nor pages of other origins. Use GET, HEAD.'
  return new ApiError(405, 'method_not_allowed', message, { headers: { allow: 'GET, HEAD' } })
}
