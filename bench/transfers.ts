import { spawn } from 'node:child_process'
import { closeSync, createWriteStream, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { headerLine, plantLine } from '../src/plants/account-file.ts'
import { openDatabase } from '../src/storage/database.ts'
import { type PostgresServer, startPostgres } from '../test/support/postgres.ts'
import { atLeast, atMost, type Figure, median, percentile, round2, rounds } from './measure.ts'
import { databasePath, Folders } from './plants.ts'
import { benchKey, startService, type Used, watchUse } from './processes.ts'

/*
 * Imports 1,000,000 plants (PLANTS) into an account and exports them again: over SQLite against `.import` and the JSON output of
 * the `sqlite3` shell, and over a PostgreSQL that waits for the disk against COPY by `psql`. Both sides do the same work in turn,
 * ROUNDS times, with a new table that has the same columns and indexes. Both sides are whole processes that read from a file or
 * write into a file, so both times include the start of a process. The time of our command also includes the validation and the
 * audit record. A command that only shows its help has its own row in the table.
 * Targets: at least half of the speed, as the median of the rounds; in every round at most 200 MB more than the command that
 * shows its help. Then an import runs while a service is in use: the p99 of POST /plants is at most five times that of an idle
 * service. Needs Debian's packages sqlite3 and postgresql-client.
 */

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const plants = Number(process.env['PLANTS'] ?? 1_000_000)

/** The time and memory of a program. */
interface Taken extends Used {
  readonly seconds: number
}

/** The time and memory of each program in each round, by the name of its task. */
type Table = Map<string, Taken[]>

/** Compares imports and exports with the engines' own programs. */
export async function benchTransfers(): Promise<readonly Figure[]> {
  const folders = new Folders()
  const server = await startPostgres({ fsync: 'on' })
  const table: Table = new Map()
  try {
    const files = await writeFiles(folders.make())
    const settings = { DATA_DIR: folders.make() }
    for (let round = 0; round < rounds; round++) {
      note(table, 'a bare command', await conservatory(['accounts', '--help'], settings))
      await overSqlite(folders, files, table)
      await overPostgres(server, settings, files, table)
    }
    console.table(Object.fromEntries([...table].map(([name, taken]) => [name, middle(taken)])))
    const bare = most(table, 'a bare command')
    const figures = pairs.flatMap(([ours, theirs]) => [
      atLeast(`${ours}, speed to that of ${theirs}`, 0.5, speedTo(table, ours, theirs)),
      atMost(`${ours}, memory beyond a bare command`, 200, most(table, ours) - bare, ' MB'),
    ])
    const database = { DATABASE_URL: await server.createDatabase() }
    return [
      ...figures,
      await besideService('SQLite', folders, { DATA_DIR: folders.make() }),
      await besideService('PostgreSQL', folders, { DATA_DIR: folders.make(), ...database }),
    ]
  } finally {
    await server.stop()
    folders.remove()
  }
}

function note(table: Table, name: string, taken: Taken): void {
  table.set(name, [...(table.get(name) ?? []), taken])
}

function middle(taken: readonly Taken[]): Taken {
  const of = (name: keyof Taken) => round2(median(taken.map((round) => round[name])))
  return { seconds: of('seconds'), cpuSeconds: of('cpuSeconds'), megabytes: of('megabytes') }
}

/** The peak memory of a program in all rounds, in MB. */
function most(table: Table, name: string): number {
  return Math.max(...(table.get(name) ?? []).map(({ megabytes }) => megabytes))
}

/** The median of the speed ratio of two programs in the same round. */
function speedTo(table: Table, ours: string, theirs: string): number {
  const others = table.get(theirs) ?? []
  return median((table.get(ours) ?? []).map(({ seconds }, round) => (others[round]?.seconds ?? Number.NaN) / seconds))
}

const pairs = [
  ['import, SQLite', 'sqlite3 .import'],
  ['export, SQLite', 'sqlite3 .mode json'],
  ['import, PostgreSQL', 'COPY FROM'],
  ['export, PostgreSQL', 'COPY TO'],
] as const

interface Files {
  readonly jsonl: string
  /** The five columns of the table in SQLite. */
  readonly csv: string
  /** The four columns of the table in PostgreSQL, in COPY's format. */
  readonly copy: string
}

async function writeFiles(folder: string, count = plants): Promise<Files> {
  const files = {
    jsonl: join(folder, 'plants.jsonl'),
    csv: join(folder, 'plants.csv'),
    copy: join(folder, 'plants.copy'),
  }
  const written = async (path: string, head: string, line: (id: number, name: string, tag: string) => string) => {
    function* pieces() {
      yield head
      for (let id = 1; id <= count; ) {
        let piece = ''
        for (const end = Math.min(count, id + 5000 - 1); id <= end; id++)
          piece += line(id, `Monstera ${id}`, `shelf ${id % 997}`)
        yield piece
      }
    }
    await pipeline(Readable.from(pieces()), createWriteStream(path))
  }
  await written(files.jsonl, headerLine('owner', count), (id, name, tag) => plantLine({ id, name, tag }))
  await written(
    files.csv,
    '',
    (id, name, tag) => `1,${id},${name},${tag},"{""name"":""${name}"",""tag"":""${tag}""}"\n`,
  )
  await written(files.copy, '', (id, name, tag) => `1\t${id}\t${name}\t${tag}\n`)
  return files
}

async function overSqlite(folders: Folders, files: Files, table: Table): Promise<void> {
  const [ours, theirs] = [folders.make(), folders.make()]
  for (const folder of [ours, theirs]) {
    const database = openDatabase(databasePath(folder))
    database.exec("INSERT INTO accounts (id, name, created) VALUES (1, 'owner', 0)")
    // The shell's .import does not support generated columns, so its table has an ordinary column with the same bytes.
    if (folder === theirs) {
      const [create = ''] = database
        .prepare<[], string>("SELECT sql FROM sqlite_schema WHERE name = 'plants'")
        .pluck()
        .all()
      const plain = create.replace(/ GENERATED ALWAYS AS[\s\S]*STORED/, '')
      database.exec(`DROP TABLE plants; ${plain};
        CREATE INDEX plants_by_tag ON plants (account, tag, id) WHERE tag IS NOT NULL`)
    }
    database.close()
  }
  const shell = (...words: string[]) =>
    run('sqlite3', [databasePath(theirs), 'PRAGMA foreign_keys = ON', ...words], {}, join(theirs, 'out'))
  note(table, 'sqlite3 .import', await shell('.mode csv', `.import ${files.csv} plants`))
  note(table, 'import, SQLite', await conservatory(['accounts', 'import', 'owner', files.jsonl], { DATA_DIR: ours }))
  const select = 'SELECT id, name, tag FROM plants WHERE account = 1 ORDER BY id'
  note(table, 'sqlite3 .mode json', await shell('.mode json', select))
  const exported = join(ours, 'out')
  note(table, 'export, SQLite', await conservatory(['accounts', 'export', 'owner'], { DATA_DIR: ours }, exported))
  checkExport(exported, files)
}

async function overPostgres(
  server: PostgresServer,
  { DATA_DIR }: { readonly DATA_DIR: string },
  files: Files,
  table: Table,
): Promise<void> {
  const [ours, theirs] = [await server.createDatabase(), await server.createDatabase()]
  // The first start makes the tables and the account "owner".
  for (const url of [ours, theirs]) await (await startService('first start', { DATA_DIR, DATABASE_URL: url })).stop()
  const exported = join(DATA_DIR, 'out')
  const psql = (copy: string) => run('psql', ['-X', '-q', theirs, '-c', copy], {}, exported)
  const settings = { DATA_DIR, DATABASE_URL: ours }
  note(table, 'COPY FROM', await psql(`\\copy plants (account, id, name, tag) FROM '${files.copy}'`))
  note(table, 'import, PostgreSQL', await conservatory(['accounts', 'import', 'owner', files.jsonl], settings))
  const select = 'SELECT id, name, tag FROM plants WHERE account = 1 ORDER BY id'
  note(table, 'COPY TO', await psql(`\\copy (${select}) TO STDOUT`))
  note(table, 'export, PostgreSQL', await conservatory(['accounts', 'export', 'owner'], settings, exported))
  checkExport(exported, files)
}

/** Compares the sizes of the exported and the imported file. @throws Error if they differ */
function checkExport(exported: string, files: Files): void {
  if (statSync(exported).size !== statSync(files.jsonl).size) throw new Error('the export is not what was imported')
}

/** The p99 of POST /plants during an import, in proportion to the p99 without an import. */
async function besideService(
  engine: string,
  folders: Folders,
  settings: Readonly<Record<string, string>>,
): Promise<Figure> {
  const service = await startService('service', settings)
  try {
    await conservatory(['accounts', 'create', 'big'], settings)
    const { jsonl } = await writeFiles(folders.make(), Math.min(plants, 300_000))
    let isOver = false
    // Warm-up: a service that has just started is slower.
    await p99(service.url, () => false, 200)
    const idle = await p99(service.url, () => false, 500)
    const importing = conservatory(['accounts', 'import', 'big', jsonl], settings).finally(() => {
      isOver = true
    })
    const beside = await p99(service.url, () => isOver)
    const { seconds } = await importing
    console.log(
      `${engine}, POST /plants, p99: ${round2(idle)} ms idle, ${round2(beside)} ms beside an import of ${round2(seconds)} s`,
    )
    return atMost(`${engine}, POST /plants beside an import, p99 to that of an idle service`, 5, beside / idle)
  } finally {
    await service.stop()
  }
}

/** The p99 of sequential POST requests in milliseconds, with a pause of 20 ms after each reply. */
async function p99(url: string, isOver: () => boolean, count = Number.POSITIVE_INFINITY): Promise<number> {
  const took: number[] = []
  const headers = { authorization: `Bearer ${benchKey}`, 'content-type': 'application/json' }
  while (!isOver() && took.length < count) {
    const begun = performance.now()
    const answer = await fetch(`${url}/plants`, { method: 'POST', headers, body: '{"name":"Fern"}' })
    await answer.text()
    if (!answer.ok) throw new Error(`A write was answered with ${answer.status}.`)
    took.push(performance.now() - begun)
    await wait(20)
  }
  return percentile(took, 99)
}

function conservatory(
  words: readonly string[],
  settings: Readonly<Record<string, string>>,
  output?: string,
): Promise<Taken> {
  return run(process.execPath, [main, ...words], settings, output)
}

/** Runs a program to its end. @throws Error when it is missing, or fails */
async function run(
  program: string,
  words: readonly string[],
  settings: Readonly<Record<string, string>>,
  output = '/dev/null',
): Promise<Taken> {
  // Opening the output empties the file. The time for this must not count.
  const out = openSync(output, 'w')
  const begun = performance.now()
  const child = spawn(program, words, {
    env: { PATH: process.env['PATH'], ...settings },
    stdio: ['ignore', out, 'inherit'],
  })
  closeSync(out)
  const use = watchUse(child)
  const code = await new Promise<number | null>((resolve, reject) => {
    const debian = program === 'psql' ? 'postgresql-client' : program
    child.once('error', () => reject(new Error(`The program ${program} is missing: apt-get install -y ${debian}`)))
    child.once('exit', resolve)
  }).finally(use)
  if (code !== 0) throw new Error(`${program} ended with ${code}.`)
  const { cpuSeconds, megabytes } = use()
  return { seconds: round2((performance.now() - begun) / 1000), cpuSeconds, megabytes: round2(megabytes) }
}
