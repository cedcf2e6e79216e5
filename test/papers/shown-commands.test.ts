import { globSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'
import { blocksOf } from '../support/readme.ts'

/** The test that runs a command of the documents, and a text in this test that shows it: by default the words of the command. */
type RunBy = readonly [file: string, evidence?: string]

const readmeTest: RunBy = ['test/papers/readme.test.ts', 'await pasted(others, service)']
const installation: RunBy = ['test/trials/service-user.trial.ts', 'runnable(installation)']
const actions = 'test/audit/actions.test.ts'
const cards = 'test/characters/commands.test.ts'
const noDatabase = 'test/command-line/no-database.test.ts'

/** The beginnings of the shown commands that a test runs. `conservatory` stands for each form of the command line. */
const runBy: Readonly<Record<string, RunBy>> = {
  ...Object.fromEntries(
    ['create', 'delete', 'export', 'import', 'limit', 'models', 'resume', 'set', 'suspend'].map((name) => [
      `conservatory accounts ${name}`,
      [actions],
    ]),
  ),
  ...Object.fromEntries(
    ['create', 'limit', 'models', 'revoke', 'rotate'].map((name) => [`conservatory keys ${name}`, [actions]]),
  ),
  ...Object.fromEntries(
    ['check', 'export', 'import', 'list', 'test'].map((name) => [`conservatory characters ${name}`, [cards]]),
  ),
  'conservatory accounts list': ['test/stores/move/move.test.ts'],
  'conservatory keys list': ['test/trials/service-user.trial.ts', 'sudo conservatory keys list'],
  'conservatory care due': ['test/care/commands.test.ts', "'care', 'due'"],
  'conservatory plants events': ['test/care/commands.test.ts', "'plants', 'events'"],
  'conservatory plants export': ['test/plants/csv-commands.test.ts', "'plants', 'export'"],
  'conservatory plants import': ['test/plants/csv-commands.test.ts', "'plants', 'import'"],
  'conservatory plants share': [actions],
  'conservatory plants shares': [noDatabase],
  'conservatory plants unshare': [actions],
  'conservatory models check': ['test/papers/readme.test.ts', "'models check'"],
  'conservatory audit': ['test/audit/commands.test.ts', "'audit"],
  'conservatory backup': ['test/papers/backup-container.test.ts', "services['backup']?.command"],
  'conservatory check': ['test/stores/check/check.test.ts', "'check"],
  'conservatory migrate': ['test/trials/service-user.trial.ts', 'sudo conservatory migrate'],
  'conservatory restore': ['test/trials/service-user.trial.ts', 'runnable(restoring)'],
  'conservatory serve': ['test/command-line/commands.test.ts', "'serve"],
  'conservatory usage': ['test/usage/commands.test.ts', "'usage"],
  'cat > hello.mjs': readmeTest,
  curl: readmeTest,
  export: readmeTest,
  'node hello.mjs': readmeTest,
  'npm start': ['test/papers/readme.test.ts', 'exec npm start'],
  'npm ci': ['.ci/run', 'npm ci\n'],
  'npm install --no-save': ['.ci/run', 'npm install --no-save'],
  'npm run check': ['.ci/run', 'npm run check\n'],
  'npm run coverage': ['.github/workflows/check.yml', 'run: npm run coverage\n'],
  'npm run openapi': ['test/papers/openapi.test.ts', 'openapi/write.ts'],
  'npm run package': ['test/trials/package.trial.ts', "npm('run', '--silent', 'package')"],
  'npm run test:llama': ['.ci/run', 'npm run test:llama\n'],
  'npm run test:page': ['.ci/run', 'npm run test:page --'],
  'npm run test:postgres': ['.ci/run', 'npm run test:postgres --'],
  'npm run trials': ['.ci/run', 'npm run trials -- trials/package '],
  'npx --yes --loglevel=error': ['test/trials/package.trial.ts', '`exec $'],
  install: installation,
  'useradd --system': installation,
}

/** The beginnings of the shown commands that no test runs, each with the reason. */
const notRun: Readonly<Record<string, string>> = {
  'docker compose': 'it needs an engine; operations.test.ts and privileges.test.ts read compose.yaml',
  'docker run': 'it needs an engine, and the image of another program',
  'git clean': 'it deletes files of the checkout',
  journalctl: 'it needs systemd as the first process',
  kubectl: 'it needs a cluster; operations.test.ts and privileges.test.ts read ops/kubernetes.yaml',
  'node ops/lot.ts': 'it draws texts for a reader at random',
  'npm install': 'npm ci has installed the package for the tests',
  'npm run bench': 'its figures compare versions on one quiet machine',
  'npm run format': 'npm run check has the same program, which only reports',
  'npm test': 'npm run check runs the same tests',
  'npm version': 'it is a step of a release',
  'npx vitest run': 'npm run check runs the same tests',
  openssl: 'it asks a PostgreSQL with TLS; test/storage/postgres tests the connection',
  pg_ctl: 'it is a tool of PostgreSQL for the operator’s server',
  pg_dump: 'it is a tool of PostgreSQL for the operator’s server',
  pg_restore: 'it is a tool of PostgreSQL for the operator’s server',
  psql: 'it is a tool of PostgreSQL for the operator’s server',
  systemctl: 'it needs systemd as the first process; operations.test.ts reads the units',
}

const programs = [...new Set([...Object.keys(runBy), ...Object.keys(notRun)].map((start) => start.split(' ')[0]))]
const command = new RegExp(`^(?:${programs.join('|')}|python3?|pip|bash|sh|go|make|ollama|pgbench)\\s+\\S`)

/** The commands that a document shows in its shell blocks, and between its texts. */
function commandsIn(text: string): readonly string[] {
  const lines = blocksOf(text).flatMap(({ language, text: block }) => {
    if (language === 'console') return [...block.matchAll(/^\$ (.+)$/gm)].map(([, line = '']) => line)
    return language === 'sh'
      ? block
          .replaceAll(/(?<=<<'END')\n[\s\S]*?^END$/gm, '')
          .split('\n')
          .filter(Boolean)
      : []
  })
  const bare = text.replaceAll(/^```[\s\S]*?^```$/gm, '')
  const spans = [...bare.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => withoutForm(span))
  return [...lines.map(withoutForm), ...spans.filter((span) => command.test(span))].flatMap((line) =>
    line.split(' && '),
  )
}

/** A command without the settings and the words before it, which depend on how the service runs. */
function withoutForm(line: string): string {
  return line.replace(
    /^(?:[A-Z_]+=\S* |sudo (?=conservatory)|npx (?=conservatory)|docker compose run --rm backup )+/,
    '',
  )
}

const starts = [...Object.keys(runBy), ...Object.keys(notRun)].toSorted((one, other) => other.length - one.length)
const startOf = (line: string) =>
  starts.find((start) => `${line} `.startsWith(start) && !/^\w/.test(`${line} `.slice(start.length)))

const papers = globSync(['README.md', 'CONTRIBUTING.md', 'docs/*.md'], { cwd: projectFolder })
const shown = papers.flatMap((paper) => commandsIn(textOf(paper)).map((line) => ({ paper, line })))

describe('the commands of the documents', () => {
  it('are each run by a test, or the table says why not', () => {
    expect(shown.length).toBeGreaterThan(100)
    const unknown = shown.filter(({ line }) => startOf(line) === undefined && !line.startsWith('conservatory …'))
    expect(unknown).toEqual([])
  })

  it('are in the table only if a document shows them', () => {
    const used = new Set(shown.map(({ line }) => startOf(line)))
    expect(starts.filter((start) => !used.has(start))).toEqual([])
  })

  it.each(Object.entries(runBy))('%s is run by the test of the table', (start, [file, evidence]) => {
    const words = start.split(' ').slice(1)
    if (evidence === undefined) expect(textOf(file)).toMatch(new RegExp(`\\b${words.join("(?: |', ')")}\\b`))
    else expect(textOf(file)).toContain(evidence)
  })
})
