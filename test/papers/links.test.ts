import { existsSync, globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

const papers = globSync(['*.md', 'docs/**/*.md', 'test/support/README.md'], { cwd: projectFolder })

/** The fragment that links to a heading, as GitHub makes it from the text of the heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

function anchorsOf(path: string): readonly string[] {
  return [...textOf(path).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading))
}

it.each(papers)('every link of %s leads to an existing file, and to an existing heading', (paper) => {
  const links = [...textOf(paper).matchAll(/\]\(([^)\s:]*)\)/g)].map(([, link = '']) => link)
  const lost = links.filter((link) => {
    const [path = '', anchor] = link.split('#')
    const file = path === '' ? paper : join(dirname(paper), path)
    if (!existsSync(join(projectFolder, file))) return true
    return anchor !== undefined && !anchorsOf(file).includes(anchor)
  })
  expect(lost).toEqual([])
})
