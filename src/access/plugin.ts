import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { ApiError, invalidField } from '../errors.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import type { Limits } from '../limit-values.ts'
import { ChatError } from '../openai/completion.ts'
import {
  AccessError,
  type AccessStore,
  type Key,
  type KeyName,
  type KeyPosition,
  keyNameProblem,
  type NewKey,
} from './access.ts'
import { checkMayMake, checkMayRevoke, checkMayRotate, permissionsOf, requestedPermissions } from './excess.ts'
import { actorOf, callerOf, type Guard, requireScope } from './guard.ts'
import {
  KeyBody,
  KeyList,
  KeyListQuery,
  KeyPath,
  KeyRequestBody,
  keyBody,
  NewKeyBody,
  RotationBody,
} from './key-body.ts'
import { keysAllowed } from './limits-in-force.ts'
import { type ModelList, modelListOf, modelListProblem } from './model-lists.ts'
import { sendPage } from './pages.ts'
import { hasEnded, isPast } from './refusals.ts'

/** The objects that the routes of keys use. */
export interface KeysOptions {
  readonly store: AccessStore
  readonly guard: Guard
  /** The limits of accounts without limits of their own. */
  readonly limits: Limits
}

/** The error statuses of the routes that make keys. */
const writeRefusals = [...refusals, 400, 413, 415, 507]

/**
 * The routes of the working keys of the caller's account, for an application that creates keys for its users. A key cannot
 * create, rotate or revoke a key with more permissions than its own. Only a key with the scope `admin` may revoke any key.
 */
export const keysPlugin: FastifyPluginAsyncTypebox<KeysOptions> = async (app, options) => {
  const { guard } = options
  app.addHook('onRequest', guard.admitApiKey)
  app.addHook('onRequest', requireScope('keys', 'admin'))
  // The permissions of the key may have changed since the request was admitted.
  app.addHook('preHandler', guard.recheck)

  addListRoutes(app, options)
  addKeyRoutes(app, options)
}

function addListRoutes(app: TypedInstance, { store, guard, limits: settings }: KeysOptions): void {
  const positionOf = async (account: number, id: string | undefined): Promise<KeyPosition | undefined> => {
    if (id === undefined) return undefined
    const key = await store.readKey(id)
    if (key?.account.id === account) return key
    throw invalidField('after', 'is not the id of a key of your account', 'The parameter')
  }

  app.get(
    '',
    {
      schema: {
        operationId: 'listKeys',
        summary: "List your account's keys",
        description:
          'Lists the working keys, oldest first (keys of one second by their ids), without their secrets. If `has_more` is true, pass the last `id` as `after` for the next page.',
        tags: ['keys'],
        security,
        querystring: KeyListQuery,
        response: answers({ 200: KeyList }, ChatError, [...refusals, 400]),
      },
    },
    async (request, reply) => {
      await guard.settle()
      const { account } = callerOf(request)
      const { limit = maxKeys, after } = request.query
      const start = await positionOf(account.id, after)
      return sendPage<Key>(reply, {
        limit,
        read: (last, count) => store.keysAfter(account.id, last ?? start, count),
        isListed: (key) => !hasEnded(key),
        bodyOf: keyBody,
      })
    },
  )

  app.post(
    '',
    {
      schema: {
        operationId: 'createKey',
        summary: 'Make a key for your account',
        description:
          'Makes a key. Only this reply has its secret. A scope that your key lacks, a later end, a missing or higher limit, or a model beyond yours is a 403 `exceeds_your_key`. So is the scope `admin`, which only the command line gives to a new key, and the scope `keys` if your key has limits. If your key has limits, the requests and tokens of the new key count in these limits too.',
        tags: ['keys'],
        security,
        body: KeyRequestBody,
        response: answers({ 201: NewKeyBody }, ChatError, writeRefusals),
      },
    },
    async (request, reply) => {
      const { name, scopes, expires, limits, models } = request.body
      const problem = name == null ? undefined : keyNameProblem(name)
      if (problem !== undefined) throw invalidField('name', problem)
      if (expires != null && isPast(expires)) throw invalidField('expires', 'is past; send a moment to come')
      const allowed = models == null ? null : readModels(models)
      const caller = callerOf(request)
      const requested = {
        account: caller.account.name,
        scopes: [...new Set(scopes)],
        ...(name == null ? {} : { name }),
        ...(expires == null ? {} : { expires }),
        ...(limits === undefined ? {} : { limits }),
        models: allowed,
        madeBy: caller.id,
      }
      checkMayMake(permissionsOf(caller), requestedPermissions(requested))
      return sendNew(reply, await store.createKey(requested, actorOf(request, settings), keysAllowed(caller, settings)))
    },
  )
}

/** The most keys of a page. */
const maxKeys = 1000

function addKeyRoutes(app: TypedInstance, { store, guard, limits }: KeysOptions): void {
  // Reads only this key, and not the list: an account may have any number of keys.
  const find = async ({ account }: Key, id: string): Promise<Key> => {
    await guard.settle()
    const key = await store.readKey(id)
    if (!key || key.account.id !== account.id || hasEnded(key)) throw unknownKey()
    return key
  }

  app.get(
    '/:id',
    {
      schema: {
        operationId: 'getKey',
        summary: "Get one of your account's keys",
        description:
          'Returns a key of your account, without its secret. A key that was revoked or has expired is a 404.',
        tags: ['keys'],
        security,
        params: KeyPath,
        response: answers({ 200: KeyBody }, ChatError, [...refusals, 404]),
      },
    },
    async (request) => keyBody(await find(callerOf(request), request.params.id)),
  )

  app.delete(
    '/:id',
    {
      schema: {
        operationId: 'revokeKey',
        summary: "Revoke one of your account's keys",
        description:
          'Revokes the key immediately; its open streams end within a second. The last working key with the scope `admin` cannot be revoked. A key with more rights than yours is a 403 `exceeds_your_key`, unless your key has the scope `admin`.',
        tags: ['keys'],
        security,
        params: KeyPath,
        response: answers({ 204: Type.Null({ description: 'The key was revoked.' }) }, ChatError, [
          ...refusals,
          404,
          409,
          507,
        ]),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const key = await find(caller, request.params.id)
      checkMayRevoke(permissionsOf(caller), permissionsOf(key))
      // Not counted, so that a stolen key can be revoked at the limit of changes too: each key was counted when it was made.
      const actor = { ...actorOf(request, limits), changeLimits: [] }
      await store.revokeKey(nameOf(key), actor).catch(toConflict)
      return reply.code(204).send()
    },
  )

  app.post(
    '/:id/rotate',
    {
      schema: {
        operationId: 'rotateKey',
        summary: 'Replace a key by a new key with the same rights',
        description:
          'Makes a key with the same scopes, name, limits, models and expiry. Both keys share their counts. The old key works until the end of the overlap. A key with more rights than yours is a 403 `exceeds_your_key`.',
        tags: ['keys'],
        security,
        params: KeyPath,
        body: RotationBody,
        response: answers({ 201: NewKeyBody }, ChatError, [...writeRefusals, 404, 409]),
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const key = await find(caller, request.params.id)
      checkMayRotate(permissionsOf(caller), permissionsOf(key))
      const { overlap_seconds } = request.body
      const limit = keysAllowed(caller, limits)
      const made = await store
        .rotateKey(nameOf(key), overlap_seconds, actorOf(request, limits), limit)
        .catch(toConflict)
      return sendNew(reply, made)
    },
  )
}

/** Names a key by its id: a search by its prefix would also look at keys of other accounts. */
function nameOf({ id, account }: Key): KeyName {
  return { id, account: account.id }
}

/** @throws ApiError 400 for an invalid list of models */
function readModels(entries: ModelList): ModelList | null {
  const problem = modelListProblem(entries)
  if (problem !== undefined) throw invalidField('models', problem)
  return modelListOf(entries)
}

function sendNew(reply: FastifyReply, { key, secret }: NewKey): FastifyReply {
  return reply
    .code(201)
    .headers({ location: `/keys/${key.id}`, 'cache-control': 'no-store' })
    .send({ ...keyBody(key), key: secret })
}

/** Turns a refusal because of the state of the keys into a 409. */
function toConflict(error: unknown): never {
  if (error instanceof AccessError && error.code !== 'refused') throw new ApiError(409, error.code, error.message)
  throw error
}

function unknownKey(): ApiError {
  return new ApiError(
    404,
    'unknown_key',
    'Your account has no working key with this id. GET /keys lists the working keys.',
  )
}
