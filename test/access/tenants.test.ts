import { type StaticDecode, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Scope, scopes } from '../../src/access/access.ts'
import { often } from '../support/often.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** A key of a tenant. Keys that are made with it must not exceed its permissions. */
interface TenantKey {
  readonly id: string
  readonly secret: string
  readonly scopes: readonly Scope[]
  /** The key's own limit of plants; Infinity without a limit. */
  readonly plants: number
  /** Unix seconds; Infinity for a key without an expiry. */
  readonly expires: number
}

/** The operator's limit of plants for each account. It applies besides the limits of the keys. */
const maxPlants = 4
const latest = 4_000_000_000

const NewKey = Type.Object({ id: Type.String(), key: Type.String() })
const Keys = Type.Object({ data: Type.Array(Type.Object({ id: Type.String() })) })
const Plants = Type.Array(Type.Object({ name: Type.String() }))
const Records = Type.Object({
  data: Type.Array(Type.Object({ actor: Type.Object({ account: Type.Union([Type.String(), Type.Null()]) }) })),
})

const tenantScopes = scopes.filter((scope) => scope !== 'admin')
const step = fc.record({
  tenant: fc.nat({ max: 1 }),
  by: fc.nat({ max: 20 }),
  target: fc.nat({ max: 20 }),
  what: fc.constantFrom('make', 'make', 'rotate', 'revoke', 'plant', 'plant', 'look'),
  scopes: fc.subarray([...scopes], { minLength: 1 }),
  plants: fc.option(fc.nat({ max: 6 }), { nil: Number.POSITIVE_INFINITY }),
  expires: fc.constantFrom(latest, latest + 100, Number.POSITIVE_INFINITY),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

let service: TestService
let runs = 0

beforeAll(async () => {
  service = await startTestService({ LIMITS: `plants=${maxPlants}` })
})
afterAll(() => service?.close())

/** One account, its keys, and what it has created. */
class Tenant {
  readonly name: string
  readonly keys: TenantKey[] = []
  plants = 0

  constructor(name: string) {
    this.name = name
  }

  ask(key: TenantKey, path: string, options: { method?: string; json?: unknown } = {}): Promise<Response> {
    return service.request(path, { ...options, headers: { authorization: `Bearer ${key.secret}` } })
  }

  async idsSeenBy(by: TenantKey): Promise<readonly string[]> {
    return (await read(Keys, await this.ask(by, '/keys'))).data.map(({ id }) => id)
  }

  async do(each: Step): Promise<void> {
    const by = this.keys[each.by % this.keys.length]
    const target = this.keys[each.target % this.keys.length]
    if (!by || !target) return
    if (each.what === 'make') await this.make(by, each)
    else if (each.what === 'plant') await this.plant(by)
    else if (each.what === 'look') await this.look(by)
    else await this.end(by, target, each.what)
  }

  async make(by: TenantKey, { scopes, plants, expires }: Step): Promise<void> {
    const requested = { scopes, plants, expires }
    const json = {
      scopes,
      ...(Number.isFinite(plants) ? { limits: { plants } } : {}),
      ...(Number.isFinite(expires) ? { expires } : {}),
    }
    const reply = await this.ask(by, '/keys', { method: 'POST', json })
    const handsOutKeys = scopes.includes('keys') && Number.isFinite(by.plants)
    expect(reply.status).toBe(mayCreate(by, requested) && !handsOutKeys ? 201 : 403)
    if (reply.status === 201) this.keys.push({ ...requested, ...(await made(reply)) })
  }

  async end(by: TenantKey, target: TenantKey, what: 'rotate' | 'revoke'): Promise<void> {
    const reply =
      what === 'rotate'
        ? await this.ask(by, `/keys/${target.id}/rotate`, { method: 'POST', json: { overlap_seconds: 0 } })
        : await this.ask(by, `/keys/${target.id}`, { method: 'DELETE' })
    const done = what === 'rotate' ? 201 : 204
    expect(reply.status).toBe(mayCreate(by, target) ? done : 403)
    if (reply.status !== done) return
    this.keys.splice(this.keys.indexOf(target), 1)
    if (what === 'rotate') this.keys.push({ ...target, ...(await made(reply)) })
  }

  async plant(by: TenantKey): Promise<void> {
    const reply = await this.ask(by, '/plants', { method: 'POST', json: { name: `of ${this.name}` } })
    const mayWrite = by.scopes.includes('plants:write')
    const hasRoom = this.plants < Math.min(by.plants, maxPlants)
    expect(reply.status).toBe(mayWrite ? (hasRoom ? 200 : 429) : 403)
    if (reply.status === 200) this.plants++
  }

  /** Expects that the account sees its own data and no data of other accounts. */
  async look(by: TenantKey): Promise<void> {
    if (by.scopes.includes('plants:read')) {
      const plants = await read(Plants, await this.ask(by, '/plants'))
      expect(plants).toEqual(Array.from({ length: this.plants }, () => ({ name: `of ${this.name}` })))
    }
    if (!by.scopes.includes('keys')) return
    expect((await this.idsSeenBy(by)).toSorted()).toEqual(this.keys.map(({ id }) => id).toSorted())
    const records = (await read(Records, await this.ask(by, '/audit'))).data
    expect(records.filter(({ actor }) => actor.account !== null && actor.account !== this.name)).toEqual([])
    expect((await this.ask(by, '/audit?account=owner')).status).toBe(403)
    expect((await this.ask(by, '/requests?account=owner')).status).toBe(403)
    expect((await this.ask(by, '/metrics')).status).toBe(403)
  }
}

function mayCreate(by: TenantKey, requested: Pick<TenantKey, 'scopes' | 'plants' | 'expires'>): boolean {
  const holds = requested.scopes.every((scope) => by.scopes.includes(scope))
  return by.scopes.includes('keys') && holds && requested.plants <= by.plants && requested.expires <= by.expires
}

async function read<T extends TSchema>(schema: T, reply: Response): Promise<StaticDecode<T>> {
  expect(reply.status).toBe(200)
  return Value.Decode(schema, await reply.json())
}

async function made(reply: Response): Promise<{ readonly id: string; readonly secret: string }> {
  const { id, key } = Value.Decode(NewKey, await reply.json())
  return { id, secret: key }
}

it("in random chains of keys, no key gets more than the key that made it, more plants than the account's limit, or data of another account", async () => {
  const property = fc.asyncProperty(
    fc.tuple(fc.subarray(tenantScopes, { minLength: 1 }), fc.subarray(tenantScopes, { minLength: 3 })),
    fc.array(step, { minLength: 10, maxLength: 30 }),
    async (first, steps) => {
      runs++
      const tenants: Tenant[] = []
      for (const [index, held] of first.entries()) {
        const tenant = new Tenant(`tenant ${runs} ${index}`)
        const secret = await service.makeKey(tenant.name, held)
        const key = {
          id: '',
          secret,
          scopes: held,
          plants: Number.POSITIVE_INFINITY,
          expires: Number.POSITIVE_INFINITY,
        }
        // The id is needed to rotate or revoke the key. Without the scope `keys`, no key of the account may do that.
        const [id = ''] = held.includes('keys') ? await tenant.idsSeenBy(key) : []
        tenant.keys.push({ ...key, id })
        tenants.push(tenant)
      }
      for (const each of steps) await tenants[each.tenant]?.do(each)
      for (const tenant of tenants) for (const key of [...tenant.keys]) await tenant.look(key)
    },
  )
  await fc.assert(property, { numRuns: often(25) })
})
