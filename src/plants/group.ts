import bearerAuth from '@fastify/bearer-auth'
import type { FastifyInstance } from 'fastify'
import { type Guard, sendRequestsLeft } from '../access/guard.ts'
import { unauthorized } from '../access/refusals.ts'
import { plantErrorBody } from '../errors.ts'
import { errorHandler } from '../http/errors.ts'
import { standardHeaders } from '../limits/headers.ts'

/**
 * Makes an instance a part of the plants group, before its routes are added: a bearer token admits a request, errors have the body
 * of plants, and replies have the headers `RateLimit`. `isOfPlants` of `http/errors.ts` has the paths of the group.
 */
export async function openPlantsGroup(app: FastifyInstance, guard: Guard): Promise<void> {
  app.setErrorHandler(errorHandler(plantErrorBody))
  await app.register(bearerAuth, {
    keys: [],
    specCompliance: 'rfc6749',
    addHook: false,
    verifyErrorLogLevel: 'trace',
    auth: async (key, request) => {
      await guard.admit(request, key, standardHeaders)
      return true
    },
  })
  app.addHook('onRequest', (request, reply, done) => {
    const again = guard.admitAgain(request, standardHeaders)
    if (again === true) return done()
    if (again) {
      again.then(() => done(), done)
      return
    }
    app.verifyBearerAuth?.(request, reply, (error) => {
      // The package's own error means that there is no bearer token. All other errors come from `guard.admit`.
      const isNoToken = error && 'code' in error && String(error.code).startsWith('FST_BEARER_AUTH_')
      done(
        isNoToken
          ? unauthorized('missing_token', 'Send your token in the header Authorization: Bearer YOUR_TOKEN.')
          : error,
      )
    })
  })
  app.addHook('onRequest', sendRequestsLeft(standardHeaders))
}
