import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, delimiter, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { projectFolder } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'

const image = `sha256:${'a'.repeat(64)}`
const commit = 'b'.repeat(40)

/** Runs ops/digests.ts over copies of the files with images and actions. @param answers the output of `docker` and of `git` */
function rewritten(answers: { readonly docker: string; readonly git: string }): ReadonlyMap<string, string> {
  const { path: folder, remove } = temporaryFolder()
  onTestFinished(remove)
  mkdirSync(join(folder, 'programs'))
  for (const [name, answer] of Object.entries(answers)) {
    writeFileSync(join(folder, 'programs', name), `#!/bin/sh\nprintf '%b' '${answer}'\n`)
    chmodSync(join(folder, 'programs', name), 0o755)
  }
  const files = ['Dockerfile', 'compose.yaml', ...globSync('.github/workflows/*.yml', { cwd: projectFolder })]
  const copies = files.map((file) => join(folder, basename(file)))
  for (const [at, file] of files.entries()) copyFileSync(join(projectFolder, file), copies[at] ?? '')
  const env = { ...process.env, PATH: [join(folder, 'programs'), process.env['PATH']].join(delimiter) }
  execFileSync(process.execPath, [join(projectFolder, 'ops', 'digests.ts'), ...copies], { env, stdio: 'pipe' })
  return new Map(copies.map((copy) => [basename(copy), readFileSync(copy, 'utf8')]))
}

it('a release puts the digest beside each image and each action, and changes nothing else', () => {
  const files = rewritten({
    docker: `${image}\\n`,
    git: `${'c'.repeat(40)}\\trefs/tags/v1\\n${commit}\\trefs/tags/v1^{}\\n`,
  })
  const all = [...files.values()].join('\n')
  const images = all.match(/^(?:FROM|\s+image:) .+$/gm) ?? []
  expect(images.length).toBeGreaterThan(6)
  const own = images.filter((line) => line.trim() === 'image: conservatory')
  expect(images.filter((line) => /:[\d.]+[\w.-]*@sha256:a{64}(?: AS \w+)?$/.test(line)).length).toBe(
    images.length - own.length,
  )
  const actions = all.match(/uses: .+$/gm)?.filter((line) => !line.includes('./')) ?? []
  expect(actions.length).toBeGreaterThan(6)
  expect(actions.filter((line) => !/@b{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual([])
  for (const [name, text] of files) {
    const before = readFileSync(join(projectFolder, /yml$/.test(name) ? `.github/workflows/${name}` : name), 'utf8')
    const without = text.replaceAll(`@${image}`, '').replaceAll(new RegExp(`@${commit} # `, 'g'), '@')
    expect(without).toBe(before)
  }
})

it.each([
  ['an image', { docker: 'not found\\n', git: `${commit}\\trefs/tags/v1\\n` }],
  ['an action', { docker: `${image}\\n`, git: '' }],
])('a release stops if the answer for %s is no digest', (_what, answers) => {
  expect(() => rewritten(answers)).toThrow(/There is no digest for \S+\. Check its version\./)
})
