import { readFile } from 'node:fs/promises'
import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify'
import { unknownRoute } from './unknown-route.ts'

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

/** `/openapi.json`, the committed description of the two interfaces, and `/docs`, a page to read and try it. */
export const documentsPlugin: FastifyPluginAsync = async (app) => {
  app.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(await readFile(openApiFile)),
  )

  // The page's package takes some 20 MB: it is loaded, in an instance of its own, for the first who asks.
  let reference: Promise<FastifyInstance> | undefined
  app.addHook('onClose', async () => (await reference)?.close())
  app.get('/docs', { schema: { hide: true } }, (_request, reply) => reply.redirect('/docs/', 301))
  app.get('/docs/*', { schema: { hide: true } }, async (request, reply) => {
    reference ??= createReference().catch((error: unknown) => {
      reference = undefined
      throw error
    })
    const page = await (await reference).inject({ url: request.url })
    if (page.statusCode === 404) throw unknownRoute()
    return reply
      .code(page.statusCode)
      .header('content-security-policy', contentSecurityPolicy)
      .header('content-type', page.headers['content-type'])
      .send(page.rawPayload)
  })
}

async function createReference(): Promise<FastifyInstance> {
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
  return app
}
