import { readFile } from 'node:fs/promises'
import Fastify, { type FastifyPluginAsync } from 'fastify'
import { KeptDocument, Readers } from './kept-document.ts'

const openApiFile = new URL('../../openapi/conservatory.json', import.meta.url)

/** The reference page may ask nothing of any other host; the browser holds it to that. */
const contentSecurityPolicy = [
  "default-src 'self'",
  "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "worker-src 'self' blob:",
  "frame-ancestors 'none'",
].join('; ')

/** Replies with documents that may be open at once; browsers keep what they have read. */
const mostReaders = 64

/** `/openapi.json`, the committed description of the two interfaces, and `/docs`, a page to read and try it. */
export const documentsPlugin: FastifyPluginAsync = async (app) => {
  const readers = new Readers(mostReaders)
  const openApi = once(async () => KeptDocument.from('application/json; charset=utf-8', await readFile(openApiFile)))
  app.get('/openapi.json', { schema: { hide: true } }, async (request, reply) =>
    (await openApi()).send(request, reply, readers),
  )

  // The page's package takes some 20 MB: it is loaded for the first who asks.
  const reference = once(readReference)
  app.get('/docs', { schema: { hide: true } }, (_request, reply) => reply.redirect('/docs/', 301))
  for (const path of ['/docs/', '/docs/js/scalar.js'] as const) {
    app.get(path, { schema: { hide: true } }, async (request, reply) => {
      const document = (await reference())[path]
      return document.send(request, reply.header('content-security-policy', contentSecurityPolicy), readers)
    })
  }
}

/** Makes something when it is first asked for, and again only if that failed. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined
      throw error
    })
    return made
  }
}

/** The reference page and its script, as the package's own routes send them. */
async function readReference() {
  const { default: apiReference } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  await app.register(apiReference, {
    routePrefix: '/docs',
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Conservatory',
      withDefaultFonts: false,
      telemetry: false,
      showDeveloperTools: 'never',
      hideClientButton: true,
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  })
  const read = async (url: string) => {
    const { headers, rawPayload } = await app.inject({ url })
    return KeptDocument.from(String(headers['content-type']), rawPayload)
  }
  const documents = { '/docs/': await read('/docs/'), '/docs/js/scalar.js': await read('/docs/js/scalar.js') }
  await app.close()
  return documents
}
