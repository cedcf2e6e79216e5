import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import type { TestService } from './service.ts'

/** The README of the checkout. */
export const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')

/** A command at a prompt in the README, and the lines of output below it. */
export interface Shown {
  readonly command: string
  readonly answer: string
}

/** The curl lines in the console blocks of a document, in their order. @param document the text; by default the README */
export function shownCommands(document = readme): readonly Shown[] {
  return [...document.matchAll(/^```console\n([\s\S]*?)^```$/gm)]
    .flatMap(([, session = '']) => session.split(/^\$ /m).slice(1))
    .map((text) => {
      const [command = '', ...answer] = text.trim().split('\n')
      return { command, answer: answer.join('\n') }
    })
    .filter(({ command }) => command.startsWith('curl '))
}

/** Runs a curl line with the URL and the key of this service in place of the documented ones. @returns its output */
export async function answerTo({ command }: Shown, { url, key }: Pick<TestService, 'url' | 'key'>): Promise<string> {
  const here = command.replace('http://127.0.0.1:3000', url)
  const { stdout } = await promisify(execFile)('bash', ['-c', here], { env: { PATH: process.env['PATH'], KEY: key } })
  return stdout.trim()
}

/** The answer without the parts that differ between runs. */
export function steadyAnswer(answer: string): string {
  return answer.replace(/"id":"chatcmpl-[^"]*"/g, '"id":"chatcmpl-…"').replace(/"created":\d+/g, '"created":0')
}
