import { globSync, readFileSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import { projectFolder } from './process.ts'

const dockerfile = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8')
const rules = readFileSync(join(projectFolder, '.dockerignore'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))

/** The files and folders of the checkout that the Dockerfile copies. */
export const copiedPaths: readonly string[] = [
  ...new Set([...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, sources = '']) => sources.split(' '))),
]

/** The names and paths in `src` that the Dockerfile keeps. */
const keptSources = [...dockerfile.matchAll(/ ! -(name|path) '?([^' ]+)'?/g)].map(([, kind, pattern = '']) =>
  kind === 'name' ? `src/**/${pattern}` : pattern,
)

/**
 * Whether the image gets a file of the checkout: the last rule of `.dockerignore` that matches its path or a folder above it
 * decides whether the build gets the file, and the Dockerfile chooses the files of `src`.
 */
export function isInImage(path: string): boolean {
  const isUnder = (place: string) => matchesGlob(path, place) || matchesGlob(path, `${place}/**`)
  const last = rules.findLast((rule) => isUnder(rule.replace('!', '')))
  if (last?.startsWith('!') !== true || !copiedPaths.some(isUnder)) return false
  return !`${path}/`.startsWith('src/') || keptSources.some((kept) => matchesGlob(path, kept))
}

/** All files and folders of the checkout, without its packages. A glob finds no hidden files, and one of them is in the image. */
export function checkoutPaths(): readonly string[] {
  const found = globSync(['**', '.npmrc'], { cwd: projectFolder, exclude: ['node_modules', 'coverage'] })
  return found.map((path) => path.replaceAll('\\', '/'))
}

/** Names of files that an owner of a checkout might put into any of its folders. */
export const canaries: readonly string[] = [
  ...['canary.json', 'canary.md', 'canary.txt', 'canary.png', 'canary.db', '.env', 'models.json', '.canary'],
  'canary/canary.json',
]
