import { readFile } from 'node:fs/promises'
import type { FastifyPluginAsync } from 'fastify'
import { CachedDocument, once, type ReaderLimit } from './cached-document.ts'

const openApiFile = new URL('../../openapi/conservatory.json', import.meta.url)

/** The files of the reference page: a page and a script of this project, and files of Swagger UI. */
const readerFolder = new URL('../../openapi/reader/', import.meta.url)
const swaggerFolder = new URL('static/', import.meta.resolve('@fastify/swagger-ui/package.json'))
const readerFiles = [
  { path: '/docs/', type: 'text/html', file: new URL('index.html', readerFolder) },
  { path: '/docs/reader.js', type: 'text/javascript', file: new URL('reader.js', readerFolder) },
  { path: '/docs/swagger-ui.js', type: 'text/javascript', file: new URL('swagger-ui-bundle.js', swaggerFolder) },
  { path: '/docs/swagger-ui.css', type: 'text/css', file: new URL('swagger-ui.css', swaggerFolder) },
] as const

/** The page may load scripts and styles only from this service, may have none inline, and may call no other host. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Icons are `data:` URLs in the stylesheet. The page shows a requested picture as a `blob:` URL.
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const readerHeaders = { 'content-security-policy': contentSecurityPolicy, 'cross-origin-opener-policy': 'same-origin' }

/** Options of the documents. */
export interface DocumentsOptions {
  /** Bounds the open replies with documents and files of the page. */
  readonly readers: ReaderLimit
}

/** `/openapi.json`, the OpenAPI document of the repository, and `/docs`, a page that shows it and calls routes. */
export const documentsPlugin: FastifyPluginAsync<DocumentsOptions> = async (app, { readers }) => {
  const openApi = once(async () => CachedDocument.from('application/json; charset=utf-8', await readFile(openApiFile)))
  app.get('/openapi.json', { schema: { hide: true } }, async (request, reply) =>
    (await openApi()).send(request, reply, readers),
  )

  app.get('/docs', { schema: { hide: true } }, (_request, reply) =>
    reply.headers(readerHeaders).redirect('/docs/', 301),
  )
  for (const { path, type, file } of readerFiles) {
    const document = once(async () => CachedDocument.from(`${type}; charset=utf-8`, await readFile(file)))
    app.get(path, { schema: { hide: true } }, async (request, reply) =>
      (await document()).send(request, reply.headers(readerHeaders), readers),
    )
  }
}
