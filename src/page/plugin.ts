import type { FastifyPluginAsync } from 'fastify'
import { ApiError } from '../errors.ts'
import { addVary, CachedDocument, once, type ReaderLimit } from '../http/cached-document.ts'
import { readManifest } from '../manifest.ts'
import { prefersHtml } from './accept.ts'
import { type PageContents, readPage } from './contents.ts'

/** Options of the page. */
export interface PageOptions {
  /** Whether `/docs` and `/openapi.json` are served. */
  readonly hasDocuments: boolean
  /** Bounds the open replies with documents and files of the page. */
  readonly readers: ReaderLimit
}

/**
 * The page loads scripts and styles only from this service, never parses texts as HTML, and sends requests only to this service.
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "connect-src 'self'",
  "require-trusted-types-for 'script'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** The lifetime is a year. The path of a file contains the version of the page, so the content at a path never changes. */
const immutable = 'public, max-age=31536000, immutable'
/** The request headers on which the reply of `GET /` depends. */
const documentVaries = 'accept, accept-encoding'

/** The page is the same for all services of this process. */
const page = once(async () => keep(await readPage()))

/** `GET /`: the page for browsers, and a JSON list of routes for other clients. `GET /page/…`: the files of the page. */
export const pagePlugin: FastifyPluginAsync<PageOptions> = async (app, { hasDocuments, readers }) => {
  const { version } = readManifest()
  const routes = JSON.stringify({
    name: 'conservatory',
    version,
    ...(hasDocuments ? { docs: '/docs', openapi: '/openapi.json' } : {}),
    plants: '/plants',
    chat: '/chat/completions',
  })

  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    if (!prefersHtml(request.headers.accept)) {
      addVary(reply, documentVaries)
      return reply.type('application/json; charset=utf-8').send(routes)
    }
    const { document } = await page()
    reply.headers({
      'content-security-policy': contentSecurityPolicy,
      // A site that has opened the page cannot change its address afterwards.
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
    })
    return document.send(request, reply, readers)
  })

  app.get<{ Params: { version: string; '*': string } }>(
    '/page/:version/*',
    { schema: { hide: true } },
    async (request, reply) => {
      const { version: wanted, '*': path } = request.params
      const { version: kept, files } = await page()
      const file = wanted === kept ? files.get(path) : undefined
      if (!file) throw new ApiError(404, 'unknown_route', 'This version of the page has no such file. Reload the page.')
      reply.header('content-security-policy', contentSecurityPolicy)
      return file.send(request, reply, readers)
    },
  )
}

interface KeptPage {
  readonly version: string
  readonly document: CachedDocument
  readonly files: ReadonlyMap<string, CachedDocument>
}

async function keep({ version, document, files }: PageContents): Promise<KeptPage> {
  const kept = new Map<string, CachedDocument>()
  for (const { path, mediaType, text } of files) {
    kept.set(
      path,
      await CachedDocument.from(mediaType, Buffer.from(text), { cacheControl: immutable, hasBrotli: true }),
    )
  }
  const html = 'text/html; charset=utf-8'
  const options = { cacheControl: 'no-cache', vary: documentVaries, hasBrotli: true }
  return { version, document: await CachedDocument.from(html, Buffer.from(document), options), files: kept }
}
