import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

const model = textOf('docs/threat-model.md')

/** The paths that the links of a text lead to. @param folder the folder of the text */
function linksOf(text: string, folder: string): readonly string[] {
  const targets = [...text.matchAll(/\]\(([^)#]+)\)/g)].map(([, target]) => target ?? '')
  return targets.map((target) => join(folder, target))
}

describe('docs/threat-model.md', () => {
  it('names only existing tests and documents', () => {
    const links = linksOf(model, 'docs')
    expect(links.length).toBeGreaterThan(60)
    expect(links.filter((link) => !existsSync(join(projectFolder, link)))).toEqual([])
  })

  it('has each of the ten OWASP risks once, with evidence', () => {
    const rows = [...model.matchAll(/^\| (API\d+) .+\|(.+)\|$/gm)]
    expect(rows.map(([, risk]) => risk)).toEqual(Array.from({ length: 10 }, (_, index) => `API${index + 1}`))
    for (const [, risk, evidence = ''] of rows) {
      expect([risk, linksOf(evidence, 'docs').every((link) => link.startsWith('test/'))]).toEqual([risk, true])
      expect([risk, linksOf(evidence, 'docs').length > 0]).toEqual([risk, true])
    }
  })
})

it('SECURITY.md says how to report a fault, and links to the threat model', () => {
  const security = textOf('SECURITY.md')
  expect(security).toMatch(/^## Report a fault$/m)
  expect(linksOf(security, '.')).toContain('docs/threat-model.md')
  expect(linksOf(security, '.').filter((link) => !existsSync(join(projectFolder, link)))).toEqual([])
  expect(textOf('README.md')).toContain('(SECURITY.md)')
})
