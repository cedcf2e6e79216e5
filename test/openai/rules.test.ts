import { TypeCompiler } from '@sinclair/typebox/compiler'
import { expect, it } from 'vitest'
import { CompletionRequest, ModelParameters } from '../../src/openai/completion-request.ts'

const check = TypeCompiler.Compile(CompletionRequest)
const parameters = TypeCompiler.Compile(ModelParameters)

it('checks objects with any properties without reading the properties', () => {
  const unread = new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error('the properties are read')
      },
    },
  )
  const request = {
    model: 'm',
    messages: [{ role: 'user', content: 'Hello' }],
    lorebooks: [unread, unread],
    tools: [{ type: 'function', function: { name: 'f', parameters: unread } }],
    response_format: { type: 'json_schema', json_schema: { name: 's', schema: unread } },
    metadata: unread,
  }
  expect(check.Check(request)).toBe(true)
  expect(parameters.Check(request)).toBe(true)
  expect(check.Errors({ ...request, user_name: 5 }).First()?.path).toBe('/user_name')
  expect(parameters.Errors({ ...request, user: 5 }).First()?.path).toBe('/user')
})

it.each([[[]], ['{}'], [1], [true]])('%j is not an object', (metadata) => {
  expect(parameters.Check({ metadata })).toBe(false)
})
