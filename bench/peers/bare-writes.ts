import { createServer, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import Database from 'better-sqlite3'

/*
 * A minimal durable plant store: `node bench/peers/bare-writes.ts PORT FOLDER`. It parses JSON, inserts all plants of one
 * turn of the event loop in one transaction, syncs the transaction to disk as the service does, and then answers. It validates
 * nothing.
 */

const [port, folder = ''] = process.argv.slice(2)
const database = new Database(join(folder, 'plants.db'))
database.pragma('journal_mode = WAL')
database.pragma('synchronous = FULL')
database.exec('CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT) STRICT')
const insert = database.prepare('INSERT INTO plants (name, tag) VALUES (?, ?)')

interface Waiting {
  readonly plant: { readonly name: string; readonly tag?: string }
  readonly response: ServerResponse
}
let waiting: Waiting[] = []

function commit(): void {
  const batch = waiting
  waiting = []
  database.exec('BEGIN IMMEDIATE')
  for (const { plant } of batch) insert.run(plant.name, plant.tag ?? null)
  database.exec('COMMIT')
  for (const { plant, response } of batch) {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(plant))
  }
}

createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => {
    if (request.method !== 'POST') {
      response.end()
      return
    }
    if (waiting.length === 0) setImmediate(commit)
    waiting.push({ plant: JSON.parse(Buffer.concat(pieces).toString()), response })
  })
}).listen(Number(port), '127.0.0.1')
