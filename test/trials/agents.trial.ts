import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { installPackages } from '../support/installed-packages.ts'
import { projectFolder } from '../support/process.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { printedByEach, programsShownIn } from '../support/shown-programs.ts'

/*
 * OpenAI's Agents SDK, installed from npm into a temporary folder, talks to Fern. The program of docs/clients.md calls a tool.
 * Another program streams two turns, over chat completions and over the Responses API. Needs the npm registry.
 */

const packages = ['@openai/agents@0.20.0', 'zod@4.6.7']

let service: TestService
let folder: ReturnType<typeof installPackages>

beforeAll(async () => {
  folder = installPackages(packages)
  service = await startTestService()
})

afterAll(async () => {
  await service?.close()
  folder?.remove()
})

test('the Agents SDK program of docs/clients.md prints the text that is shown below it', async () => {
  const guide = readFileSync(join(projectFolder, 'docs/clients.md'), 'utf8')
  const program = programsShownIn(guide).find(({ title }) => title === 'OpenAI Agents SDK')
  if (!program) throw new Error('there is no such program')
  expect(await printedByEach([program], service, folder.path)).toEqual([program.output])
})

const twoTurns = (useResponses: boolean) => `
import { Agent, OpenAIProvider, Runner } from '@openai/agents'
const modelProvider = new OpenAIProvider({ baseURL: 'http://127.0.0.1:3000/v1', apiKey: process.env.KEY, useResponses: ${useResponses} })
const runner = new Runner({ modelProvider, tracingDisabled: true })
const agent = new Agent({ name: 'Fern', model: 'character/Fern' })
let input = []
for (const content of ['How do I know when to repot?', 'Can I get my moth orchid to flower again?']) {
  const result = await runner.run(agent, [...input, { role: 'user', content }], { stream: true })
  let text = ''
  for await (const words of result.toTextStream()) text += words
  input = result.history
  console.log(text === result.finalOutput, text)
}
`

test.each([true, false])('two turns are streamed (useResponses: %s)', async (useResponses) => {
  const [printed = ''] = await printedByEach(
    [{ title: '', code: twoTurns(useResponses), output: '' }],
    service,
    folder.path,
  )
  expect(printed.split('\n')).toEqual([
    expect.stringMatching(/^true When water runs straight through/),
    expect.stringMatching(/^true Phalaenopsis wants an autumn/),
    '',
  ])
})
