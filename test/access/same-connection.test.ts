import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Connection, connectTo } from '../support/connection.ts'
import { eventually } from '../support/eventually.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService
let other: string

beforeAll(async () => {
  service = await startTestService()
  other = await service.makeKey('other')
  await service.request('/plants', { json: { name: 'Moss' } })
})
afterAll(() => service.close())

/** Sends a request on this connection. @returns the status of the reply, and whether the reply has the plant "Moss" */
async function ask(connection: Connection, path: string, authorization: string | undefined): Promise<string> {
  const before = connection.text().length
  const header = authorization === undefined ? '' : `Authorization: ${authorization}\r\n`
  connection.socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`)
  const reply = () => connection.text().slice(before)
  await eventually(() => expect(reply()).toMatch(/\r\n\r\n.+/s))
  return `${reply().slice(9, 12)} ${reply().includes('Moss')}`
}

describe('requests of one connection', () => {
  it('are each answered for the key that they were sent with', async () => {
    const connection = await connectTo(service.url)
    const [mine, others] = [`Bearer ${service.key}`, `Bearer ${other}`]
    const answers: string[] = []
    for (const authorization of [mine, mine, others, mine, undefined, mine, `${mine}x`, others, others]) {
      answers.push(await ask(connection, '/plants', authorization))
    }
    const [sees, seesNone, refused] = ['200 true', '200 false', '401 false']
    expect(answers).toEqual([sees, sees, seesNone, sees, refused, sees, refused, seesNone, seesNone])
  })

  it('are each authenticated by the rules of their own group of routes', async () => {
    const connection = await connectTo(service.url)
    const answers: string[] = []
    for (const path of ['/v1/models', '/plants', '/v1/models', '/plants']) {
      answers.push(await ask(connection, path, service.key))
    }
    expect(answers).toEqual(['200 false', '401 false', '200 false', '401 false'])
  })

  it('are refused as soon as their key is revoked', async () => {
    const made = await service.request('/keys', { json: { scopes: ['plants:read'] } })
    const { id, key }: { id: string; key: string } = JSON.parse(await made.text())
    const connection = await connectTo(service.url)
    expect(await ask(connection, '/plants', `Bearer ${key}`)).toBe('200 true')
    expect((await service.request(`/keys/${id}`, { method: 'DELETE' })).status).toBe(204)
    expect(await ask(connection, '/plants', `Bearer ${key}`)).toBe('401 false')
  })
})
