import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { TestService } from '../service.ts'

/** A proxy between a page and its service. The proxy cuts replies off, as a stopping service does. */
export interface Cutting {
  readonly url: string
  /** Whether replies of more than 10 kB break off in the middle. */
  isOn: boolean
}

/** Starts a proxy that closes at the end of the running test. */
export async function startCutting({ url }: Pick<TestService, 'url'>): Promise<Cutting> {
  const server = createServer((asked, reply) => {
    const { method, headers, url: path = '/' } = asked
    const forwarded = request(new URL(path, url), { method: method ?? 'GET', headers }, (answer) => {
      reply.writeHead(answer.statusCode ?? 500, answer.headers)
      let sent = 0
      answer.on('data', (bytes: Buffer) => {
        sent += bytes.length
        const cut = cutting.isOn && sent > 10_000
        reply.write(cut ? bytes.subarray(0, bytes.length / 2) : bytes, () => cut && reply.destroy())
      })
      answer.on('end', () => reply.end())
      answer.on('error', () => reply.destroy())
    })
    forwarded.on('error', () => reply.destroy())
    asked.pipe(forwarded)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = addressOf(server.address())
  const cutting: Cutting = { url: `http://127.0.0.1:${port}`, isOn: false }
  return cutting
}

function addressOf(address: AddressInfo | string | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('The server listens nowhere.')
  return address
}
