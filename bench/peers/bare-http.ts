import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

/* The least that a server can do: `node bench/peers/bare-http.ts PORT FILE`. It sends the file's bytes to everybody. */

const [port, file = ''] = process.argv.slice(2)
const body = readFileSync(file)
const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length }

createServer((_request, response) => {
  response.writeHead(200, headers).end(body)
}).listen(Number(port), '127.0.0.1')
