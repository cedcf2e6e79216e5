import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { projectFolder } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'

/*
 * Two common linters of OpenAPI documents, Redocly and Spectral, check openapi/conservatory.json with their recommended rules.
 * They must find no error and no warning. Needs the npm registry.
 */

const document = join(projectFolder, 'openapi', 'conservatory.json')

/** Runs a program from the npm registry in a separate folder. @returns its output @throws Error if the program fails */
async function run(program: string, words: readonly string[]): Promise<string> {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  writeFileSync(join(folder.path, 'rules.yaml'), 'extends: ["spectral:oas"]\n')
  const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' }
  const { stdout } = await promisify(execFile)('npx', ['--yes', program, ...words], { cwd: folder.path, env })
  return stdout
}

test('Redocly finds no problem in openapi/conservatory.json', async () => {
  const told = await run('@redocly/cli@2.77.0', ['lint', document, '--format=json'])
  const { problems }: { problems: unknown } = JSON.parse(told.slice(told.indexOf('{')))
  expect(problems).toEqual([])
})

test('Spectral finds no problem in openapi/conservatory.json', async () => {
  const words = ['lint', '--ruleset', 'rules.yaml', '--fail-severity', 'hint', document]
  expect(await run('@stoplight/spectral-cli@6.16.3', words)).toContain('No results with a severity of')
})
