import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { often } from '../support/often.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

const people = 3
const who = fc.nat({ max: people - 1 })
const name = fc.constantFrom('Rose', 'rose', 'Moss')
const call = fc.oneof(
  fc.record({ kind: fc.constant('PUT'), who, name }),
  fc.record({ kind: fc.constant('GET'), who, name }),
  fc.record({ kind: fc.constant('DELETE'), who, name }),
  fc.record({ kind: fc.constant('list'), who, name }),
  fc.record({ kind: fc.constant('chat'), who, name }),
  fc.record({ kind: fc.constant('pin'), who, name, owner: who }),
)

it('accounts never see or change each other’s uploads, in any order of requests', async () => {
  let accountsMade = 0
  let uploaded = 0
  await fc.assert(
    fc.asyncProperty(fc.array(call, { minLength: 60, maxLength: 60 }), async (calls) => {
      const keys: string[] = []
      for (let index = 0; index < people; index++) {
        keys.push(await service.makeKey(`person ${++accountsMade}`, ['chat', 'characters:write']))
      }
      /** The digests of each account's characters, by exact name. */
      const uploadsByAccount = keys.map(() => new Map<string, string>())
      const uploadsOf = (index: number) => uploadsByAccount[index] ?? new Map<string, string>()
      /**
       * The upload that a name finds: an exact match, else the first name, in the order of code points, that differs only in
       * case.
       */
      const find = (uploads: ReadonlyMap<string, string>, wanted: string) => {
        const names = [...uploads.keys()].toSorted()
        const found = uploads.has(wanted) ? wanted : names.find((each) => each.toLowerCase() === wanted.toLowerCase())
        return found === undefined ? undefined : { name: found, digest: uploads.get(found) ?? '' }
      }
      for (const call of calls) {
        const uploads = uploadsOf(call.who)
        const send = (method: string, path: string, body?: string) =>
          service.request(path, {
            method,
            headers: { authorization: `Bearer ${keys[call.who]}` },
            ...(body === undefined ? {} : { body }),
          })
        const path = `/characters/${call.name}`
        const mine = find(uploads, call.name)
        if (call.kind === 'PUT') {
          const text = JSON.stringify({ spec: 'chara_card_v3', data: { name: 'x', description: `${++uploaded}` } })
          expect((await send('PUT', path, text)).status).toBe(uploads.has(call.name) ? 200 : 201)
          uploads.set(call.name, `sha256:${createHash('sha256').update(text).digest('hex')}`)
        } else if (call.kind === 'GET') {
          const response = await send('GET', path)
          expect(response.status).toBe(mine ? 200 : 404)
          if (mine) expect(await response.json()).toMatchObject(mine)
        } else if (call.kind === 'DELETE') {
          // Only an exact match is deleted.
          expect((await send('DELETE', path)).status).toBe(uploads.delete(call.name) ? 204 : 404)
        } else if (call.kind === 'list') {
          const { data }: { data: { name: string; digest: string; origin: string }[] } = JSON.parse(
            await (await send('GET', '/characters')).text(),
          )
          const own = data.filter(({ origin }) => origin === 'account')
          expect(new Map(own.map((each) => [each.name, each.digest]))).toEqual(uploads)
        } else {
          // A pin of another account's card is a 404. All cards of this test differ, so no account has a card of another one.
          const pinned = call.kind === 'pin' ? find(uploadsOf(call.owner), call.name)?.digest : undefined
          const character = pinned === undefined ? call.name : `${call.name}@${pinned}`
          const messages = [{ role: 'user', content: 'Hello' }]
          const response = await send(
            'POST',
            '/chat/completions',
            JSON.stringify({ model: 'understudy', character, messages }),
          )
          await response.text()
          if (pinned !== undefined && call.kind === 'pin' && call.owner !== call.who) {
            expect(response.status).toBe(404)
          } else {
            const played = mine ? `${mine.name}@${mine.digest}` : call.name
            expect([response.status, response.headers.get('x-character')]).toEqual([200, played])
          }
        }
      }
    }),
    { numRuns: often(6), endOnFailure: true },
  )
})
