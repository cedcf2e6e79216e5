import { expect, it } from 'vitest'
import { fold, foldedColumns } from '../../src/plants/fold.ts'

it.for([
  ['Monstera', 'monstera'],
  ['ＭＯＮＳＴＥＲＡ', 'monstera'],
  ['Straße', 'strasse'],
  ['STRASSE', 'strasse'],
  ['e\u0301', 'é'],
  ['ΟΔΟΣ', 'οδοσ'],
  ['ﬁcus', 'ficus'],
])('%s is folded to %s', ([text = '', folded]) => {
  expect(fold(text)).toBe(folded)
})

it('the folded name of 255 characters fits into an index of PostgreSQL, and is searched whole', () => {
  const { folded, found } = foldedColumns({ name: '\uFDFA'.repeat(255), tag: 'Aroid' })
  expect(folded.length).toBe(255)
  expect(found).toBe(`${fold('\uFDFA').repeat(255)}\naroid`)
  expect(foldedColumns({ name: 'Fern' })).toEqual({ folded: 'fern', found: 'fern' })
  expect(foldedColumns({ name: 'Fern', tag: 'A', species: null, place: 'C' }).found).toBe('fern\na\nc')
})
