import { expect, test } from 'vitest'
import { expectError } from '../support/http.ts'
import { serviceForThisTest } from '../support/service.ts'

const card = { name: 'Mallow', first_mes: 'Hello {{user}}, I am {{char}}.' }

test('GET /characters/{name}?user_name=… expands the greetings as prompts for this user do', async () => {
  const service = await serviceForThisTest()
  expect((await service.request('/characters', { json: card })).status).toBe(201)
  for (const [query, user_name] of [
    ['?user_name=Mara', 'Mara'],
    ['?user_name=%20Ada%20', 'Ada'],
    ['?user_name=%20', ' '],
    ['', null],
  ]) {
    const text = `Hello ${user_name?.trim() || 'User'}, I am Mallow.`
    const shown = await (await service.request(`/characters/Mallow${query}`)).json()
    expect(shown).toMatchObject({ greetings: [{ index: 0, text }] })
    const json = { model: 'understudy', character: 'Mallow', user_name, messages: [{ role: 'user', content: 'Hi' }] }
    const prompt = await (await service.request('/chat/prompt', { json })).json()
    expect(prompt).toMatchObject({ messages: expect.arrayContaining([{ role: 'assistant', content: text }]) })
  }
  for (const query of [`user_name=${'x'.repeat(201)}`, 'user_name=a&user_name=b'])
    await expectError(await service.request(`/characters/Mallow?${query}`), 'chat', 400)
})
