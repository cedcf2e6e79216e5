import Fastify from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { shareDeadline } from '../../src/app.ts'
import type { WaitingRequest } from '../../src/storage/postgres/request-time.ts'
import { eventually } from '../support/eventually.ts'

it('the context of a request, which a connection to the database keeps, forgets the request at its end', async () => {
  const app = Fastify()
  onTestFinished(() => app.close())
  const contexts: WaitingRequest[] = []
  const account = { id: 7 }
  shareDeadline(app, {
    duringRequest(context, work) {
      contexts.push(context)
      work()
    },
  })
  app.get('/', (request) => {
    Object.assign(request, { caller: { account } })
    return contexts.map((context) => ({ account: context.account(), isAnswered: context.isAnswered() }))
  })
  const reply = await fetch(await app.listen({ port: 0 }))
  expect(await reply.json()).toEqual([{ account: account.id, isAnswered: false }])
  await eventually(() => expect(contexts[0]?.account()).toBeUndefined())
  expect(contexts[0]?.isAnswered()).toBe(true)
})
