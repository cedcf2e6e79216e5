import postgres from 'postgres'

/** The server that `vitest.postgres.config.ts` starts for all tests; none where they run over SQLite. */
const serverUrl = process.env['TEST_POSTGRES_URL']
const databases = new Map<string, Promise<string>>()

/** The database that goes with a data folder, made when first asked for; undefined where the tests run over SQLite. */
export async function databaseOf(dataDirectory: string): Promise<string | undefined> {
  if (serverUrl === undefined) return undefined
  const made = databases.get(dataDirectory) ?? makeDatabase(serverUrl)
  databases.set(dataDirectory, made)
  return made
}

async function makeDatabase(server: string): Promise<string> {
  const name = `test_${process.pid}_${databases.size}`
  const sql = postgres(`${server}/postgres`, { max: 1, onnotice: () => {} })
  await sql.unsafe(`DROP DATABASE IF EXISTS ${name}`)
  await sql.unsafe(`CREATE DATABASE ${name}`)
  await sql.end()
  return `${server}/${name}`
}
