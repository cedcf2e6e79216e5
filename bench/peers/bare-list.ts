import { once } from 'node:events'
import { createServer } from 'node:http'
import Database from 'better-sqlite3'

/*
 * A minimal server of a long list: `node bench/peers/bare-list.ts PORT DATABASE`. The server iterates over the plants and writes
 * their JSON in chunks of 64 KB, with backpressure.
 */

const [port, file = ''] = process.argv.slice(2)
const database = new Database(file, { readonly: true })
const plants = database.prepare<[], { name: string; tag: string | null }>(
  'SELECT name, tag FROM plants WHERE account = 1 ORDER BY id',
)

createServer(async (request, response) => {
  if (request.url !== '/plants') {
    response.end()
    return
  }
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' })
  let piece = ''
  let separator = '['
  for (const { name, tag } of plants.iterate()) {
    piece += separator + JSON.stringify(tag === null ? { name } : { name, tag })
    separator = ','
    if (piece.length < 65_536) continue
    if (!response.write(piece)) await once(response, 'drain')
    piece = ''
  }
  response.end(`${piece}]`)
}).listen(Number(port), '127.0.0.1')
