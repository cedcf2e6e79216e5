import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { builtInSystemPrompt } from '../../src/characters/prompt/composition.ts'
import { projectFolder } from '../support/process.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { cases } from '../support/sillytavern/cases.ts'
import { isSame, normalised, promptOf, type Verdict } from '../support/sillytavern/comparison.ts'
import { openTavernPage, type TavernPage } from '../support/sillytavern/page.ts'
import { startTavern, type Tavern } from '../support/sillytavern/program.ts'
import { guideOf, promptsOf } from '../support/sillytavern/table.ts'

/*
 * Compares the prompts of SillyTavern, installed from npm and used in headless Chromium, with those of POST /chat/prompt, for the
 * same conversations, cards and settings. Writes docs/sillytavern.md and
 * test/fixtures/sillytavern-comparison.md. Needs the npm registry and Chromium (CHROMIUM is its path).
 */

let tavern: Tavern
let page: TavernPage
let service: TestService
const verdicts: Verdict[] = []

beforeAll(async () => {
  service = await startTestService()
  tavern = await startTavern()
  page = await openTavernPage(tavern, builtInSystemPrompt)
})

afterAll(async () => {
  await page?.close()
  await tavern?.close()
  await service?.close()
})

test.each(cases.map((each) => [`${each.area}: ${each.name}`, each] as const))('%s', async (_name, compared) => {
  const theirs = normalised(await page.play(compared))
  const ours = normalised(await promptOf(compared, service))
  const verdict = { compared, theirs, ours }
  verdicts.push(verdict)
  if (compared.otherwise === undefined) expect(ours).toEqual(theirs)
  else expect(isSame(verdict), 'What was decided otherwise is the same: the reason is to go').toBe(false)
})

test('there are at least 60 cases, and at least 50 have the same prompt; both pages are written', () => {
  expect(verdicts.length).toBe(cases.length)
  expect(cases.length).toBeGreaterThanOrEqual(60)
  expect(verdicts.filter(isSame).length).toBeGreaterThanOrEqual(50)
  writeFileSync(join(projectFolder, 'docs', 'sillytavern.md'), guideOf(verdicts))
  writeFileSync(join(projectFolder, 'test', 'fixtures', 'sillytavern-comparison.md'), promptsOf(verdicts))
})
