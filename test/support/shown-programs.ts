import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { compileCache, projectFolder } from './process.ts'
import type { TestService } from './service.ts'

/** A program in a document, and its output. */
export interface ShownProgram {
  /** The heading above the program. */
  readonly title: string
  readonly code: string
  readonly output: string
}

/**
 * The programs of a document: each block of JavaScript that is followed by a block of text. A block of JavaScript without a
 * block of text is put before each program that comes after it.
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
 * Runs programs as a reader would, with this service in place of the documented one. They run one after the other in one process,
 * because loading their packages takes longer than running them.
 * @param folder the folder whose packages the programs import
 * @returns the output of each program, with the error that ended it, if there was one
 */
export async function printedByEach(
  programs: readonly ShownProgram[],
  { url, key }: Pick<TestService, 'url' | 'key'>,
  folder = projectFolder,
): Promise<readonly string[]> {
  const codes = programs.map(({ code }) => code.replaceAll('http://127.0.0.1:3000', url))
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', `const codes = ${JSON.stringify(codes)}\n${runEach}`],
    { cwd: folder, env: { PATH: process.env['PATH'], KEY: key, ...compileCache }, timeout: 60_000 },
  )
  return stdout.split('\0').slice(0, -1)
}

/** Runs each of `codes` as a separate module in the current folder, and prints a null character after it. */
const runEach = `
  import { registerHooks } from 'node:module'
  const here = import.meta.url
  registerHooks({
    resolve: (name, context, next) =>
      next(name, context.parentURL?.startsWith('data:') ? { ...context, parentURL: here } : context),
  })
  for (const [index, code] of codes.entries()) {
    // The comment with the number makes a different module of each program, even if the code is the same.
    const module = encodeURIComponent('/* ' + index + ' */' + code)
    await import('data:text/javascript,' + module).catch(console.log)
    process.stdout.write('\\0')
  }`
