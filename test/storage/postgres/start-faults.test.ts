import { appendFileSync, chmodSync, chownSync, copyFileSync, statSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { StorageError, StorageNotReady } from '../../../src/errors.ts'
import { connectPostgres } from '../../../src/storage/postgres/connect.ts'
import { until } from '../../support/eventually.ts'
import { ofVersion, refusal, refusingWith, startFakePostgres } from '../../support/fake-postgres.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres.ts'
import { projectFolder } from '../../support/process.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

const tlsFolder = join(projectFolder, 'test/fixtures/tls')
const authority = `sslrootcert=${join(tlsFolder, 'authority.pem')}`
const stranger = `sslrootcert=${join(tlsFolder, 'other-authority.pem')}`

/** A server with TLS, whose pg_hba.conf admits or refuses these roles. */
let server: PostgresServer

const rules = `
hostssl   all only_tls    127.0.0.1/32 trust
hostnossl all only_plain  127.0.0.1/32 trust
host      all turned_away,only_tls 127.0.0.1/32 reject
host      all gardener    127.0.0.1/32 scram-sha-256
host      all nobody_here 127.0.0.1/32 trust
host      all all         127.0.0.1/32 trust
`

/** Writes a file that only the server may read. */
function give(from: string, to: string): void {
  const path = join(server.folder, to)
  const { uid, gid } = statSync(server.folder)
  copyFileSync(join(tlsFolder, from), path)
  chmodSync(path, 0o600)
  chownSync(path, uid, gid)
}

/** Makes the server reload its settings and its certificate. */
async function reload(): Promise<void> {
  const sql = postgres(server.url('postgres'), { max: 1 })
  await sql`SELECT pg_reload_conf()`
  await sql.end()
}

beforeAll(async () => {
  server = await startPostgres()
  give('server.pem', 'server.pem')
  give('server.key', 'server.key')
  appendFileSync(
    join(server.folder, 'postgresql.conf'),
    "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n",
  )
  const sql = postgres(server.url('postgres'), { max: 1, onnotice: () => {} })
  await sql.unsafe(`
    CREATE ROLE gardener LOGIN PASSWORD 'secret'; CREATE ROLE only_tls LOGIN SUPERUSER; CREATE ROLE only_plain LOGIN SUPERUSER;
    CREATE ROLE turned_away LOGIN; CREATE ROLE asleep NOLOGIN; CREATE ROLE crowded LOGIN CONNECTION LIMIT 0; CREATE ROLE weak LOGIN;
    CREATE ROLE reader LOGIN SUPERUSER; ALTER ROLE reader SET default_transaction_read_only = on;
    CREATE ROLE lost LOGIN SUPERUSER; ALTER ROLE lost SET search_path = nowhere`)
  for (const name of ['closed', 'open', 'plants']) await sql.unsafe(`CREATE DATABASE ${name}`)
  await sql.unsafe('REVOKE CONNECT ON DATABASE closed FROM public')
  await sql.end()
  writeFileSync(join(server.folder, 'pg_hba.conf'), rules)
  await reload()
  // The server answers before it has reloaded everything.
  await until(async () => (await outcome('?sslmode=require')) === 'TLS')
}, 60_000)
afterAll(() => server.stop())

/** The message of a start that cannot use a database, without its first words, which name the host. */
async function fault(url: string, place: string): Promise<{ says: string; isTransient: boolean }> {
  const thrown = await connectPostgres(url).then(
    async (database) => {
      await database.close()
      return 'no fault'
    },
    (error: unknown) => error,
  )
  expect(thrown).toBeInstanceOf(StorageError)
  const text = thrown instanceof Error ? thrown.message : ''
  const beginning = `The database at ${place} `
  expect(text.slice(0, beginning.length)).toBe(beginning)
  // The message has one line, ends with a full stop, and does not have the role, its password, the database, or `undefined`.
  expect(text).not.toMatch(/gardener|sec@?ret|only_tls|turned_away|asleep|crowded|weak|reader|nobody_here|undefined|\n/)
  expect(text).toMatch(/\.$/)
  return { says: text.slice(beginning.length), isTransient: thrown instanceof StorageNotReady }
}

/** The URL of the server for a role, with this end. */
const at = (role: string, rest = '/open', host = '127.0.0.1') =>
  `postgres://${role}:secret@${host}:${server.port}${rest}`

/** Whether the connection has TLS, or the message of a start that fails. */
async function outcome(rest: string, { role = 'postgres', host = 'localhost' } = {}): Promise<string> {
  try {
    const database = await connectPostgres(at(role, `/plants${rest}`, host))
    const [row] = await database.read(
      (sql) => sql<{ ssl: boolean }[]>`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`,
    )
    await database.close()
    return row?.ssl ? 'TLS' : 'plain'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/**
 * Runs all rows in parallel when the first outcome is requested, because most rows wait for a time limit.
 * @returns a function that returns the outcome of a row by its name
 */
function inParallel<Row extends readonly [what: string, ...unknown[]], Outcome>(
  rows: readonly Row[],
  run: (row: Row) => Promise<Outcome>,
): (what: string) => Promise<Outcome | undefined> {
  let running: ReadonlyMap<string, Promise<Outcome>> | undefined
  return async (what) => {
    running ??= new Map(rows.map((row) => [row[0], run(row)]))
    // Each test checks its own outcome.
    await Promise.allSettled(running.values())
    return running.get(what)
  }
}

describe('(v) a start that a PostgreSQL refuses says what to change', () => {
  const rows: readonly [what: string, role: string, rest: string, says: string, isTransient: boolean][] = [
    ['a wrong password', 'gardener:wrong', '/open', 'refuses this name and password.', false],
    ['no such role', 'nobody_here', '/open', 'has no role of this name', false],
    ['a role that may not log in', 'asleep', '/open', 'has no role of this name that may log in', false],
    ['no such database', 'postgres', '/gone', 'has no database of this name.', false],
    ['too many connections', 'crowded', '/open', 'has no connection left. Raise its max_connections', true],
    [
      'TLS wanted by the server',
      'only_tls',
      '/open',
      'does not let this client in without TLS. Append ?sslmode=',
      false,
    ],
    ['a refusal of pg_hba.conf', 'turned_away', '/open', 'does not let this client in without TLS.', false],
    [
      'the same with TLS',
      'turned_away',
      '/open?sslmode=require',
      'does not let this role in from this machine. Add a line',
      false,
    ],
    ['a server that only reads', 'reader', '/open', 'only reads. Name the server that writes', true],
    ['no permission for the schema', 'weak', '/open', 'does not let this role create and use tables. Grant it', false],
    [
      'no permission to connect',
      'weak',
      '/closed',
      'does not let this role connect to the database. Grant it CONNECT',
      false,
    ],
    ['no schema', 'lost', '/open', 'has no schema for our tables. Create one', false],
    [
      'an unknown parameter',
      'postgres',
      '/open?channel_binding=require',
      'does not know the parameter channel_binding. Take',
      false,
    ],
  ]
  const outcomeOf = inParallel(rows, ([, role, rest]) => {
    const [name = '', password = 'secret'] = role.split(':')
    const place = `127.0.0.1:${server.port}`
    return fault(`postgres://${name}:${password}@${place}${rest}`, place)
  })
  it.each(rows)('%s', async (what, _role, _rest, says, isTransient) => {
    expect(await outcomeOf(what)).toEqual({ says: expect.stringContaining(says), isTransient })
  })
})

describe('(v) a start that reaches no server says so', () => {
  const rows: readonly [what: string, url: string, place: string, says: string][] = [
    [
      'a host that is not known',
      'postgres://gardener:secret@nowhere.invalid/plants',
      'nowhere.invalid',
      'has a host name that is not known. Correct it',
    ],
    [
      'a port on which nothing listens',
      'postgres://gardener:secret@127.0.0.1:1/plants',
      '127.0.0.1:1',
      'refuses the connection: nothing listens there. Start it',
    ],
    [
      'two dead hosts',
      'postgres://gardener:secret@127.0.0.1:1,127.0.0.1:2/plants',
      '127.0.0.1:1,127.0.0.1:2',
      'refuses the connection: nothing listens there. Start it',
    ],
    [
      'a password with an @',
      'postgres://gardener:sec@ret@127.0.0.1:1/plants',
      '127.0.0.1:1',
      'refuses the connection: nothing listens there. Start it',
    ],
    [
      'an @ behind the host',
      'postgres://gardener:secret@127.0.0.1:1/plants?application_name=a@b',
      '127.0.0.1:1',
      'refuses the connection: nothing listens there. Start it',
    ],
    [
      'the same with TLS',
      'postgres://gardener:secret@127.0.0.1:1/plants?sslmode=require',
      '127.0.0.1:1',
      'refuses the connection: nothing listens there. Start it',
    ],
  ]
  const outcomeOf = inParallel(rows, ([, url, place]) => fault(url, place))
  it.each(rows)('%s, which is transient', async (what, _url, _place, says) => {
    expect(await outcomeOf(what)).toEqual({ says: expect.stringContaining(says), isTransient: true })
  })
})

/** Answers as a web server does to a malformed request. */
const web = refusalOf('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')

function refusalOf(text: string) {
  return (socket: Socket) => socket.once('data', () => void socket.end(text))
}

/** Accepts TLS and fails the handshake; refuses plain connections. */
function brokenTls(socket: Socket): void {
  socket.once('data', (first) => {
    if (first.length > 8) socket.end(refusal('XX000', 'not today'))
    else socket.once('data', () => void socket.end('no handshake at all')).write('S')
  })
}

describe('(v) a start reports what answers in place of a usable PostgreSQL', () => {
  const rows: readonly [
    what: string,
    script: (socket: Socket) => void,
    rest: string,
    says: string,
    isTransient: boolean,
  ][] = [
    ['a web server', web, '', "does not speak PostgreSQL's protocol: something else listens there.", false],
    ['a web server, asked for TLS', web, '?sslmode=require', "does not speak PostgreSQL's protocol", false],
    ['a web server with TLS, asked for TLS', web, '?sslmode=prefer', "does not speak PostgreSQL's protocol", false],
    ['something that hangs up', (socket) => void socket.end(), '', 'ends the connection without an answer.', true],
    [
      'something that hangs up on TLS',
      (socket) => void socket.end(),
      '?sslmode=require',
      'ends the connection without an answer.',
      true,
    ],
    ['something that is silent', () => {}, '', 'does not answer. See that it runs', true],
    ['something that is silent about TLS', () => {}, '?sslmode=require', 'does not answer. See that it runs', true],
    [
      'something that accepts TLS and ends the handshake',
      refusalOf('S'),
      '?sslmode=require',
      'ends the connection without an answer.',
      true,
    ],
    ['a broken TLS', brokenTls, '?sslmode=require', 'cannot negotiate TLS with this machine (ERR_SSL_', false],
    ['a broken TLS that is optional', brokenTls, '?sslmode=prefer', 'cannot be used (XX000).', false],
    ['an attacker in between', refusalOf('SRxxx'), '?sslmode=require', "does not speak PostgreSQL's protocol", false],
    [
      'a version too old',
      ofVersion('100023'),
      '',
      'is PostgreSQL 10, and Conservatory needs 11 or newer. Upgrade it',
      false,
    ],
    [
      'a server that starts',
      refusingWith('57P03', 'the database system is starting up'),
      '',
      'is starting or stopping.',
      true,
    ],
    [
      'a full disk',
      refusingWith('53100', 'could not write'),
      '',
      'has no room left on its disk. Make room there.',
      false,
    ],
    [
      'a cloud that wants TLS',
      refusingWith('08P01', 'connection is insecure (try using `sslmode=require`)'),
      '',
      'does not let this client in without TLS.',
      false,
    ],
    [
      'PgBouncer without the database',
      refusingWith('08P01', 'no such database: plants'),
      '',
      'has no database of this name.',
      false,
    ],
    ['PgBouncer without the user', refusingWith('08P01', 'no such user: gardener'), '', 'refuses this role.', false],
    [
      'PgBouncer whose server is stopped',
      refusingWith('08P01', 'server login has been failing'),
      '',
      'cannot be used (08P01).',
      true,
    ],
    [
      'an unknown refusal',
      refusingWith('XX000', 'out of secret gardeners'),
      '',
      'cannot be used (XX000). Its log says why.',
      false,
    ],
  ]
  const outcomeOf = inParallel(rows, async ([, script, rest]) => {
    const fake = await startFakePostgres(script)
    const found = await fault(`postgres://gardener:secret@${fake.place}/plants${rest}`, fake.place).finally(fake.close)
    return { ...found, connections: fake.connections() }
  })
  it.each(rows)('%s', async (what, _script, _rest, says, isTransient) => {
    const found = await outcomeOf(what)
    expect(found).toMatchObject({ says: expect.stringContaining(says), isTransient })
    // The attempts last five seconds. The pauses between them keep their number low.
    expect(found?.connections).toBeLessThan(60)
  })
})

describe('(v) sslmode and sslrootcert of the URL do what libpq documents', () => {
  const notTrusted = 'has a certificate that is not trusted. Name the certificate of its authority by sslrootcert=PATH'
  const otherName = 'has a certificate for another host name.'

  it.concurrent.each<[rest: string, host: string, wanted: string]>([
    ['', 'localhost', 'plain'],
    ['?sslmode=disable', 'localhost', 'plain'],
    ['?sslmode=prefer', 'localhost', 'TLS'],
    ['?sslmode=require', '127.0.0.1', 'TLS'],
    ['?sslmode=verify-ca', 'localhost', notTrusted],
    ['?sslmode=verify-full', 'localhost', notTrusted],
    [`?sslmode=require&${authority}`, '127.0.0.1', 'TLS'],
    [`?sslmode=require&${stranger}`, '127.0.0.1', notTrusted],
    [`?sslmode=verify-ca&${authority}`, '127.0.0.1', 'TLS'],
    [`?sslmode=verify-ca&${stranger}`, 'localhost', notTrusted],
    [`?sslmode=verify-full&${authority}`, 'localhost', 'TLS'],
    [`?sslmode=verify-full&${authority}`, '127.0.0.1', otherName],
    [`?sslmode=verify-full&${stranger}`, 'localhost', notTrusted],
    ['?sslrootcert=system', 'localhost', notTrusted],
    [`?application_name=a&sslmode=verify-full&${authority}`, 'localhost', 'TLS'],
    ['?ssl=true', 'localhost', notTrusted],
    [`?sslmode=require&${authority}&sslnegotiation=direct`, 'localhost', 'TLS'],
    [
      '?sslmode=require&sslrootcert=system',
      'localhost',
      'DATABASE_URL has sslrootcert=system, which asks for sslmode=verify-full.',
    ],
    ['?sslmode=allow', 'localhost', 'DATABASE_URL has an sslmode that is not understood; give one of disable, prefer,'],
    ['?sslmode=constructor', 'localhost', 'DATABASE_URL has an sslmode that is not understood; give one of disable,'],
    [
      '?sslmode=verify-full&sslrootcert=/nowhere/root.pem',
      'localhost',
      'by sslrootcert that cannot be read (ENOENT). Correct its path',
    ],
    [
      `?sslmode=verify-full&sslrootcert=${tlsFolder}/make.sh`,
      'localhost',
      'by sslrootcert that has no certificate. Give one in PEM',
    ],
  ])('a URL with "%s" to %s has the documented result', async (rest, host, wanted) => {
    expect(await outcome(rest, { host })).toContain(wanted)
  })

  it('an expired certificate is refused by verify-full, which checks it, and accepted by require', async () => {
    give('expired.pem', 'server.pem')
    await reload()
    const checked = `?sslmode=verify-full&${authority}`
    await until(async () =>
      (await outcome(checked)).includes('has a certificate that is not valid now. Renew it there'),
    )
    expect(await outcome('?sslmode=require')).toBe('TLS')
    give('server.pem', 'server.pem')
    await reload()
    await until(async () => (await outcome(checked)) === 'TLS')
  })

  it('a server without TLS is refused by require, and used without TLS by prefer', async () => {
    const url = await newPostgresDatabase()
    await expect(connectPostgres(`${url}?sslmode=require`)).rejects.toThrow(
      'offers no TLS, which sslmode in DATABASE_URL',
    )
    await (await connectPostgres(`${url}?sslmode=prefer`)).close()
  })

  it('a role that needs TLS can log in with require', async () => {
    expect(await outcome('?sslmode=require', { role: 'only_tls' })).toBe('TLS')
  })

  it('a text that is no URL is not repeated, because it may have the password', async () => {
    await expect(connectPostgres('postgres://gardener:secret@[::/plants')).rejects.toThrow(
      'DATABASE_URL is not an address such as postgres://name:password@host:5432/database.',
    )
  })

  it('a message names the option of a command that has the URL, and not DATABASE_URL', async () => {
    const refusal = connectPostgres(at('postgres', '/plants?sslmode=sometimes'), '--from')
    await expect(refusal).rejects.toThrow('--from has an sslmode that is not understood')
  })
})
