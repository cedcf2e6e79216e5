import { readFile } from 'node:fs/promises'
import type { FastifyPluginAsync } from 'fastify'
import { CachedDocument, once, ReaderLimit } from './cached-document.ts'

const openApiFile = new URL('../../openapi/conservatory.json', import.meta.url)

/** Where the reference page is, and what it is made of: a page and a script of ours, the rest Swagger UI's. */
const readerFolder = new URL('../../openapi/reader/', import.meta.url)
const swaggerFolder = new URL('static/', import.meta.resolve('@fastify/swagger-ui/package.json'))
const readerFiles = [
  { path: '/docs/', type: 'text/html', file: new URL('index.html', readerFolder) },
  { path: '/docs/reader.js', type: 'text/javascript', file: new URL('reader.js', readerFolder) },
  { path: '/docs/swagger-ui.js', type: 'text/javascript', file: new URL('swagger-ui-bundle.js', swaggerFolder) },
  { path: '/docs/swagger-ui.css', type: 'text/css', file: new URL('swagger-ui.css', swaggerFolder) },
] as const

/** The page runs scripts and styles from here alone, none of them within the page, and may ask nothing of any other host. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Icons are written into the stylesheet; a picture that was asked for is shown.
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Replies with documents that may be open at once; browsers keep what they have read. */
const maxReaders = 64

/** `/openapi.json`, the committed description of the two interfaces, and `/docs`, a page to read and try it. */
export const documentsPlugin: FastifyPluginAsync = async (app) => {
  const readers = new ReaderLimit(maxReaders)
  const openApi = once(async () => CachedDocument.from('application/json; charset=utf-8', await readFile(openApiFile)))
  app.get('/openapi.json', { schema: { hide: true } }, async (request, reply) =>
    (await openApi()).send(request, reply, readers),
  )

  app.get('/docs', { schema: { hide: true } }, (_request, reply) =>
    reply.header('content-security-policy', contentSecurityPolicy).redirect('/docs/', 301),
  )
  for (const { path, type, file } of readerFiles) {
    const document = once(async () => CachedDocument.from(`${type}; charset=utf-8`, await readFile(file)))
    app.get(path, { schema: { hide: true } }, async (request, reply) =>
      (await document()).send(request, reply.header('content-security-policy', contentSecurityPolicy), readers),
    )
  }
}
