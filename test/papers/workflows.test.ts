import { globSync } from 'node:fs'
import { Type } from '@sinclair/typebox'
import { describe, expect, it } from 'vitest'
import { checked, documentsOf, textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

const texts = Type.Record(Type.String(), Type.String())
const step = Type.Object(
  {
    name: Type.Optional(Type.String()),
    uses: Type.Optional(Type.String()),
    with: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Boolean()]))),
    run: Type.Optional(Type.String()),
    shell: Type.Optional(Type.String()),
    env: Type.Optional(texts),
  },
  { additionalProperties: false },
)
const workflow = Type.Object({
  name: Type.String(),
  on: Type.Record(Type.String(), Type.Unknown()),
  permissions: texts,
  jobs: Type.Record(
    Type.String(),
    Type.Object(
      {
        if: Type.Optional(Type.String()),
        needs: Type.Optional(Type.Array(Type.String())),
        uses: Type.Optional(Type.String()),
        strategy: Type.Optional(
          Type.Object({
            'fail-fast': Type.Literal(false),
            matrix: Type.Object({ machine: Type.Array(Type.String()) }),
          }),
        ),
        'runs-on': Type.Optional(Type.String()),
        'timeout-minutes': Type.Optional(Type.Integer()),
        permissions: Type.Optional(texts),
        steps: Type.Optional(Type.Array(step)),
      },
      { additionalProperties: false },
    ),
  ),
})

const files = globSync('.github/workflows/*.yml', { cwd: projectFolder })
const read = (file: string) => checked(workflow, documentsOf(file)[0])
const check = read('.github/workflows/check.yml')
const release = read('.github/workflows/release.yml')
const stepsOf = (jobs: typeof release.jobs, name: string) => jobs[name]?.steps ?? []
const linesOf = (name: string) =>
  stepsOf(release.jobs, name)
    .map(({ run = '' }) => run)
    .join('\n')

describe('the workflows', () => {
  it('run all of .ci/run on every kind of machine that the service supports', () => {
    const job = check.jobs['check']
    expect(job?.strategy?.matrix.machine).toEqual(['ubuntu-24.04', 'ubuntu-24.04-arm', 'macos-15', 'windows-2025'])
    expect(job?.['runs-on']).toMatch(/^\$\{\{ matrix\.machine \}\}$/)
    expect(job?.steps?.at(-1)).toEqual({ run: '.ci/run', shell: 'bash' })
    expect(Object.keys(check.on)).toEqual(['push', 'pull_request', 'workflow_call'])
  })

  it('always test the page in a browser, even if .ci/run found no browser', () => {
    const env = { CHROMIUM: '/usr/bin/google-chrome' }
    expect(check.jobs['page']?.steps?.slice(-2)).toEqual([{ run: 'npm ci' }, { run: 'npm run test:page', env }])
  })

  it.each(files)(
    '%s: each action has its full version, and each job has a timeout and no rights by default but to read',
    (file) => {
      const { permissions, jobs } = read(file)
      expect(permissions).toEqual({ contents: 'read' })
      for (const [name, job] of Object.entries(jobs)) {
        if (job.uses !== undefined) expect(job.uses).toMatch(/^\.\/\.github\/workflows\//)
        else expect([name, job['timeout-minutes']]).toEqual([name, expect.any(Number)])
        for (const { uses, with: given } of job.steps ?? []) {
          if (uses !== undefined) expect(uses).toMatch(/^[\w-]+\/[\w-]+@v\d+\.\d+\.\d+$/)
          if (uses?.startsWith('actions/checkout@')) expect(given).toEqual({ 'persist-credentials': false })
        }
        // Texts of other people, such as names of branches, are passed by the environment: a script could execute them.
        for (const { run = '' } of job.steps ?? []) expect(run).not.toContain('${{')
      }
    },
  )

  it('release only on a tag, after all checks, and each job has only the rights that it needs', () => {
    expect(release.on).toEqual({ push: { tags: ['v*'] } })
    expect(release.jobs['check']?.uses).toBe('./.github/workflows/check.yml')
    const rights = Object.entries(release.jobs).map(([name, { permissions }]) => [name, permissions])
    expect(Object.fromEntries(rights)).toEqual({
      check: undefined,
      package: undefined,
      image: { contents: 'read', packages: 'write' },
      npm: { contents: 'read', 'id-token': 'write' },
      release: { contents: 'write' },
    })
    for (const name of ['image', 'npm', 'release']) expect(release.jobs[name]?.needs).toContain('check')
  })

  it('build the package, the image and the list of their parts, and publish to npm only if NPM_NAME is set', () => {
    expect(linesOf('package')).toMatch(/^npm ci\nnpm run package\nnpm sbom .*--sbom-format cyclonedx /m)
    expect(linesOf('image')).toMatch(/--platform linux\/amd64,linux\/arm64 .*--push/)
    const digests = linesOf('image').indexOf('node ops/digests.ts Dockerfile compose.yaml .github/workflows/*.yml')
    expect(digests).toBeGreaterThanOrEqual(0)
    expect(linesOf('image').indexOf('docker buildx build')).toBeGreaterThan(digests)
    expect(linesOf('image')).toMatch(/ghcr\.io\/\$\{GITHUB_REPOSITORY,,\}:/)
    expect(release.jobs['npm']?.if).toBe("vars.NPM_NAME != ''")
    expect(linesOf('npm')).toMatch(/npm publish --provenance/)
    expect(linesOf('release')).toMatch(/^gh release create .* conservatory-\*$/m)
    expect(textOf('.gitignore').split('\n')).toContain('/conservatory-*')
  })
})
