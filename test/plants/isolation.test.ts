import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeKey } from '../../src/access/key.ts'
import type { Cursors } from '../../src/plants/cursor.ts'
import type { Plant } from '../../src/plants/schemas.ts'
import type { Stores } from '../../src/stores/stores.ts'
import { cursorsOf } from '../support/cursors.ts'
import { often } from '../support/often.ts'
import {
  create,
  find,
  id,
  limit,
  type ModelledPlant,
  PlantsModel,
  people,
  remove,
  tag,
  who,
} from '../support/plants-model.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { isOverPostgres, onceKnown, openStoresOf } from '../support/test-database.ts'

const grant = { who, grantee: who, tag }
const share = fc.record({ kind: fc.constant('share'), ...grant })
const unshare = fc.record({ kind: fc.constant('unshare'), ...grant })

describe('over a real socket', () => {
  let service: TestService
  let stores: Stores
  let cursors: Cursors

  beforeAll(async () => {
    service = await startTestService()
    stores = await openStoresOf(service.dataDirectory)
    cursors = await cursorsOf(service.dataDirectory)
  })

  afterAll(async () => {
    await stores.close()
    await service.close()
  })

  /** The cursor of a list: no cursor, an invented cursor, or the last cursor that this or another account got. */
  const cursor = fc.oneof(
    fc.constant(undefined),
    fc.record({ owner: fc.nat({ max: people }), id }),
    fc.record({ ofViewer: who }),
  )
  const list = fc.record({
    kind: fc.constant('list'),
    who,
    tag,
    limit: fc.option(limit, { nil: undefined }),
    cursor,
    withIds: fc.boolean(),
    /** The account whose last ETag is sent. */
    known: fc.option(who, { nil: undefined }),
  })
  const call = fc.oneof(
    { arbitrary: create, weight: 4 },
    { arbitrary: remove, weight: 1 },
    { arbitrary: find, weight: 1 },
    { arbitrary: list, weight: 8 },
    { arbitrary: share, weight: 2 },
    { arbitrary: unshare, weight: 1 },
    { arbitrary: fc.record({ kind: fc.constant('revoke'), who }), weight: 1 },
  )
  let accountsMade = 0
  let planted = 0

  it('no account sees or changes more than it may, with its own keys, cursors, ETags and idempotency keys or those of others', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 120, maxLength: 120 }), async (calls) => {
        const model = new PlantsModel()
        const accounts: { readonly id: number; readonly name: string; key: string }[] = []
        for (let index = 0; index <= people; index++) {
          const { id, name } = await stores.access.createAccount(`person ${++accountsMade}`)
          accounts.push({ id, name, key: await newKey(name) })
        }
        const lastCursors = new Map<number, { readonly owner: number; readonly id: number }>()
        const lastTags = new Map<number, string>()
        /** Replies by account, URL and ETag. */
        const shown = new Map<string, string>()
        for (const call of calls) {
          const me = accounts[call.who]
          if (!me) throw new Error('no such account')
          const send = (path: string, method: string, json?: unknown, headers: Record<string, string> = {}) =>
            service.request(path, {
              method,
              headers: { authorization: `Bearer ${me.key}`, ...headers },
              ...(json === undefined ? {} : { json }),
            })
          if (call.kind === 'revoke') {
            const old = me.key
            await stores.access.revokeKey(old)
            for (const wrong of [old, makeKey()]) {
              me.key = wrong
              await onceKnown(async () => expect((await send('/plants', 'GET')).status).toBe(401))
              expect((await send('/plants/1', 'DELETE')).status).toBe(401)
            }
            me.key = await newKey(me.name)
          } else if (call.kind === 'create') {
            const name = call.key === undefined ? `${me.name}/${++planted}` : 'keyed'
            const body = {
              name,
              ...(call.id === undefined ? {} : { id: call.id }),
              ...(call.tag === undefined ? {} : { tag: call.tag }),
            }
            const asked = JSON.stringify(body)
            const response = await send(
              call.withId ? '/plants?include=id' : '/plants',
              'POST',
              body,
              call.key === undefined ? {} : { 'idempotency-key': call.key },
            )
            const first = model.keyed.get(`${call.who} ${call.key}`)
            const given = first?.plant.id ?? call.id ?? model.nextId(call.who)
            const plant = { owner: call.who, id: given, name, tag: call.tag }
            const isTaken = model.own(call.who, given) !== undefined
            const status = first ? (first.asked === asked ? 200 : 422) : isTaken ? 409 : 200
            expect(response.status).toBe(status)
            if (status === 200) {
              expect(response.headers.get('location')).toBe(`/plants/${given}`)
              expect(await response.json()).toStrictEqual(toReply(plant, call.withId))
            }
            if (status === 200 && !first) {
              model.plants.push(plant)
              if (call.key !== undefined) model.keyed.set(`${call.who} ${call.key}`, { asked, plant })
            }
          } else if (call.kind === 'remove') {
            const response = await send(`/plants/${call.id}`, 'DELETE')
            expect(response.status).toBe(model.remove(call.who, call.id) ? 204 : 404)
          } else if (call.kind === 'find') {
            const plant = model.own(call.who, call.id)
            const response = await send(`/plants/${call.id}${call.withId ? '?include=id' : ''}`, 'GET')
            expect(response.status).toBe(plant ? 200 : 404)
            if (plant) expect(await response.json()).toStrictEqual(toReply(plant, call.withId))
          } else if (call.kind === 'list') {
            const place = call.cursor && 'ofViewer' in call.cursor ? lastCursors.get(call.cursor.ofViewer) : call.cursor
            const query = new URLSearchParams({
              ...(call.limit === undefined ? {} : { limit: String(call.limit) }),
              ...(call.tag === undefined ? {} : { tag: call.tag }),
              ...(call.withIds ? { include: 'id' } : {}),
              ...(place ? { after: cursors.write({ account: accounts[place.owner]?.id ?? 0, id: place.id }) } : {}),
            })
            const known = call.known === undefined ? undefined : lastTags.get(call.known)
            const response = await send(`/plants?${query}`, 'GET', undefined, known ? { 'if-none-match': known } : {})
            const version = response.headers.get('etag') ?? ''
            const expected = model.visible(call.who, call.tag, place)
            const page = expected.slice(0, call.limit)
            const text = JSON.stringify(page.map((plant) => toReply(plant, call.withIds && plant.owner === call.who)))
            // Over SQLite an ETag stands for all plants that an account sees. Over PostgreSQL, and for an account that sees plants by
            // tag, it stands for the text of a reply.
            const [told, all] =
              isOverPostgres || model.seesByTag(call.who)
                ? [version, text]
                : [`${call.who} ${version}`, JSON.stringify(model.visible(call.who))]
            if (response.status === 304) {
              // A 304 has no body. It is correct if an earlier reply with this ETag had the same content.
              expect(version).toBe(known)
              expect(shown.get(`${call.who} ${version} ${query}`) ?? text).toBe(text)
              expect(shown.get(told)).toBe(all)
            } else {
              expect(response.status).toBe(200)
              expect(await response.text()).toBe(text)
              shown.set(`${call.who} ${version} ${query}`, text)
              shown.set(told, all)
              lastTags.set(call.who, version)
              const last = page.at(-1)
              expect(response.headers.has('link')).toBe(page.length < expected.length)
              if (last && response.headers.has('link')) {
                expect(response.headers.get('link')).toContain(
                  cursors.write({ account: accounts[last.owner]?.id ?? 0, id: last.id }),
                )
                lastCursors.set(call.who, last)
              }
            }
          } else if (call.who !== call.grantee) {
            const to = accounts[call.grantee]?.id ?? 0
            const plants = stores.plants
            if (call.kind === 'share') {
              await plants.share(me.id, to, call.tag)
              model.grants.add(`${call.who} ${call.grantee} ${call.tag ?? ''}`)
            } else {
              expect(await plants.unshare(me.id, to, call.tag)).toBe(model.unshare(call.who, call.grantee, call.tag))
            }
          }
        }
      }),
      // Over PostgreSQL there are fewer runs, because each revocation takes effect after half a second.
      {
        numRuns: often(isOverPostgres ? 2 : 6),
        endOnFailure: true,
      },
    )
  })

  async function newKey(account: string): Promise<string> {
    return (await stores.access.createKey({ account, scopes: ['plants:read', 'plants:write'] })).secret
  }
})

function toReply({ id, name, tag }: ModelledPlant, withId: boolean): Plant {
  return { ...(withId ? { id } : {}), name, ...(tag === undefined ? {} : { tag }) }
}
