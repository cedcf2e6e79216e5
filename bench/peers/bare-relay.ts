import { createServer } from 'node:http'
import { Pool } from 'undici'

/* A minimal relay: `node bench/peers/bare-relay.ts PORT UPSTREAM`. It only pipes requests and replies through. */

const [port, upstream = ''] = process.argv.slice(2)
const pool = new Pool(upstream, { headersTimeout: 0, bodyTimeout: 0 })

createServer(async (request, response) => {
  try {
    const answer = await pool.request({
      path: request.url ?? '/',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: request,
    })
    response.writeHead(answer.statusCode, { 'content-type': String(answer.headers['content-type']) })
    answer.body.pipe(response)
  } catch {
    response.writeHead(502).end()
  }
}).listen(Number(port), '127.0.0.1')
