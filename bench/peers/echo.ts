import { createServer } from 'node:http'

/* Reads JSON and returns it: `node bench/peers/echo.ts PORT`. It stores nothing. */

createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => {
    const body = pieces.length === 0 ? null : JSON.parse(Buffer.concat(pieces).toString())
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
}).listen(Number(process.argv[2]), '127.0.0.1')
