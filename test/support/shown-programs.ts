import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { compileCache, projectFolder } from './process.ts'
import type { TestService } from './service.ts'

/** A program that a document shows, and all that it prints. */
export interface ShownProgram {
  /** The heading above it. */
  readonly title: string
  readonly code: string
  readonly output: string
}

/**
 * The programs of a document: its blocks of JavaScript with a block of text behind them. A block without one stands before
 * each program that comes after it.
 */
export function programsShownIn(document: string): readonly ShownProgram[] {
  const programs: ShownProgram[] = []
  let title = ''
  let beginning = ''
  for (const [, heading, code = '', output] of document.matchAll(
    /^#+ (.+)$|^```js\n([\s\S]*?)^```$(?:\s+^```text\n([\s\S]*?)^```$)?/gm,
  )) {
    if (heading !== undefined) title = heading
    else if (output === undefined) beginning += code
    else programs.push({ title, code: beginning + code, output })
  }
  return programs
}

/**
 * Runs a program as its reader would, with the service in the place of the one that it names.
 * @param folder the folder whose packages it imports
 * @returns what it prints
 */
export async function printedBy(
  { code }: ShownProgram,
  { url, key }: Pick<TestService, 'url' | 'key'>,
  folder = projectFolder,
): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', code.replaceAll('http://127.0.0.1:3000', url)],
    { cwd: folder, env: { PATH: process.env['PATH'], KEY: key, ...compileCache }, timeout: 60_000 },
  )
  return stdout
}
