import { connect, type Socket } from 'node:net'

/*
 * Sends one request repeatedly at a fixed rate, whether or not it is answered:
 * `node bench/peers/caller.ts PORT RATE SECONDS CONNECTIONS`, with the bytes of the request on standard input.
 * A request without an idle connection waits for one; its latency counts from its scheduled moment.
 * Prints one JSON array of [scheduled moment, latency, status], in milliseconds, for each request; status 0 means no reply.
 */

const [port = 0, rate = 0, seconds = 0, connections = 0] = process.argv.slice(2).map(Number)
const pieces: Buffer[] = []
for await (const piece of process.stdin) pieces.push(piece)
const request = Buffer.concat(pieces)

const results: (readonly [due: number, took: number, status: number])[] = []
const idle: Socket[] = []
const waiting: number[] = []
const dues = new Map<Socket, number>()
let began = 0

function send(socket: Socket, due: number): void {
  dues.set(socket, due)
  socket.write(request)
}

function done(socket: Socket, status: number): void {
  const due = dues.get(socket)
  if (due === undefined) return
  dues.delete(socket)
  results.push([due, performance.now() - began - due, status])
  if (status === 0) return
  const next = waiting.shift()
  if (next === undefined) idle.push(socket)
  else send(socket, next)
}

async function open(): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.setNoDelay(true)
  socket.setEncoding('latin1')
  socket.on('error', () => {})
  socket.on('close', () => {
    const place = idle.indexOf(socket)
    if (place !== -1) idle.splice(place, 1)
    done(socket, 0)
  })
  socket.on('data', (piece: string) => {
    text += piece
    const end = text.indexOf('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(text.slice(0, Math.max(end, 0)))?.[1])
    if (end === -1 || text.length < end + 4 + length) return
    const status = Number(text.slice(9, 12))
    text = ''
    done(socket, status)
  })
  await new Promise((resolve) => socket.once('connect', resolve))
  idle.push(socket)
}

for (let count = 0; count < connections; count++) await open()
began = performance.now()
let sent = 0
await new Promise<void>((resolve) => {
  const tick = setInterval(() => {
    const now = performance.now() - began
    for (; sent < rate * seconds && (sent * 1000) / rate <= now; sent++) {
      const socket = idle.pop()
      if (socket) send(socket, (sent * 1000) / rate)
      else waiting.push((sent * 1000) / rate)
    }
    const isOver = sent >= rate * seconds && dues.size === 0 && waiting.length === 0
    if (isOver || now > (seconds + 5) * 1000) {
      clearInterval(tick)
      resolve()
    }
  }, 1)
})
for (const due of [...waiting, ...dues.values()]) results.push([due, performance.now() - began - due, 0])
process.stdout.write(JSON.stringify(results), () => process.exit())
