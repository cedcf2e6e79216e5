import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { installPackages } from '../installed-packages.ts'
import { compileCache } from '../process.ts'

/** The package to install. The trials run it as a separate program, and it is no dependency. */
export const version = 'sillytavern@1.19.0'

/** A running SillyTavern, as its page uses it. */
export interface Tavern {
  /** The URL of SillyTavern's page. */
  readonly url: string
  /** Posts JSON as SillyTavern's page does. */
  post(path: string, body: object): Promise<Response>
  /** Ends the program, and removes the installed package. */
  close(): Promise<unknown>
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('there is no port')
  return address.port
}

/**
 * Installs SillyTavern from npm into a temporary folder and starts it as a program. The caller closes it.
 * @throws Error with the output of the program, if it ends before it listens
 */
export async function startTavern(): Promise<Tavern> {
  const folder = installPackages([version])
  const port = await freePort()
  const program = spawn(
    process.execPath,
    [
      join(folder.path, 'node_modules/sillytavern/server.js'),
      ...[
        '--port',
        String(port),
        '--dataRoot',
        join(folder.path, 'data'),
        '--configPath',
        join(folder.path, 'config.yaml'),
      ],
      ...['--listen', 'false', '--browserLaunchEnabled', 'false'],
    ],
    {
      cwd: join(folder.path, 'node_modules/sillytavern'),
      env: { ...process.env, ...compileCache },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const exited = once(program, 'exit').finally(() => folder.remove())
  let printed = ''
  await new Promise<void>((resolve, reject) => {
    for (const stream of [program.stdout, program.stderr]) {
      stream.on('data', (text) => {
        printed += text
        if (/SillyTavern is listening/i.test(printed)) resolve()
      })
    }
    void exited.then(() => reject(new Error(printed)))
  })
  const address = `http://127.0.0.1:${port}`
  const page = await fetch(`${address}/csrf-token`)
  const { token } = Value.Decode(Type.Object({ token: Type.String() }), await page.json())
  const cookie = page.headers
    .getSetCookie()
    .map((each) => each.split(';')[0])
    .join('; ')
  const headers = { 'content-type': 'application/json', 'x-csrf-token': token, cookie }
  return {
    url: address,
    post: (path, body) => fetch(`${address}${path}`, { method: 'POST', headers, body: JSON.stringify(body) }),
    close: () => {
      program.kill()
      return exited
    },
  }
}
