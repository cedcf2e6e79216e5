import { globSync } from 'node:fs'
import { expect, it } from 'vitest'
import { textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

/** A table in the code, with any texts as its keys. */
const tables = /\bconst (\w+): (?:Readonly<)?Record<string, .*>+ = \{(?! ?\}| \.\.\.)/g

it('a table of texts is read by valueIn or ownValue, because a text from outside may be "constructor"', () => {
  const found = globSync('src/**/*.ts', { cwd: projectFolder }).flatMap((file) => {
    const text = textOf(file)
    return [...text.matchAll(tables)].map(([, name = '']) => {
      const uses = text.match(new RegExp(`\\b${name}\\[(?!')[^\\]]+\\]`, 'g')) ?? []
      return { table: `${file}: ${name}`, uses }
    })
  })
  expect(found.length).toBeGreaterThan(10)
  expect(found.filter(({ uses }) => uses.length > 0)).toEqual([])
})
