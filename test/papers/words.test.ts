import { globSync } from 'node:fs'
import { expect, it } from 'vitest'
import { textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

const list = 'docs/naming.md'
const [, table = ''] = textOf(list).split('## Retired words')
/** The left column of the table, without its head. */
const retired = [...table.matchAll(/^\| (?!retired|---)(.+?) \|/gm)].map(([, word = '']) => word.replaceAll('`', ''))

const files = globSync(
  ['{src,test,openapi,ops,bench}/**/*.{ts,cjs,css,html}', '*.md', 'docs/**/*.md', '*.{yaml,json}'],
  {
    cwd: projectFolder,
    exclude: ['**/node_modules/**'],
  },
).filter((file) => file !== list && file !== 'package-lock.json')

it('no file has a word that docs/naming.md retires', () => {
  expect(retired.length).toBeGreaterThan(5)
  const found = files.flatMap((file) => {
    const text = textOf(file)
    return retired.filter((word) => text.includes(word)).map((word) => `${file}: ${word}`)
  })
  expect(found).toEqual([])
})
