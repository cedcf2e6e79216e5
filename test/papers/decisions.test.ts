import { globSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, expect, it } from 'vitest'
import { textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

const pages = globSync('docs/decisions/[0-9]*.md', { cwd: projectFolder }).toSorted()
const index = textOf('docs/decisions/README.md')

describe('the decisions', () => {
  it('are numbered without a gap', () => {
    const numbers = [...index.matchAll(/^\| \[?(\d{4})/gm)].map(([, number]) => Number(number))
    expect(numbers).toEqual(numbers.map((_, position) => position + 1))
    expect(numbers.length).toBeGreaterThanOrEqual(pages.length)
  })

  it.each(pages)('have a number, a title, a status, a date, alternatives, and a row in the index: %s', (page) => {
    const number = basename(page).slice(0, 4)
    const text = textOf(page)
    const [, title = '', status = '', date = ''] =
      /^# \d{4}: (.+)\n\nStatus: (accepted)\. Date: (\d{4}-\d\d-\d\d)\.\n/.exec(text) ?? []
    expect({ number: text.slice(2, 6), hasStatus: status !== '' }).toEqual({ number, hasStatus: true })
    expect(text).toMatch(/\n## Alternatives\n\n- /)
    expect(index).toContain(`| [${number}](${basename(page)}) | ${title} | ${date} |\n`)
  })
})
