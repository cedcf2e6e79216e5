import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

/* A minimal server: `node bench/peers/bare-http.ts PORT FILE`. It answers every request with the bytes of the file. */

const [port, file = ''] = process.argv.slice(2)
const body = readFileSync(file)
const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length }

createServer((_request, response) => {
  response.writeHead(200, headers).end(body)
}).listen(Number(port), '127.0.0.1')
