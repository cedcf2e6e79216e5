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

/** A fenced block of a document. */
export interface Block {
  readonly language: string
  readonly text: string
  /** The text of a `text` block directly below it: its output. */
  readonly output: string | undefined
}

/** The fenced blocks of a document, in their order. @param document the text; by default the README */
export function blocksOf(document = readme): readonly Block[] {
  return [...document.matchAll(/^```(\w+)\n([\s\S]*?)^```$(?:\n\n```text\n([\s\S]*?)^```$)?/gm)].map(
    ([, language = '', text = '', output]) => ({ language, text, output }),
  )
}

/**
 * The curl lines of a document with their answers, in their order: of console blocks, and of shell blocks with their output below.
 * @param document the text; by default the README
 */
export function shownCommands(document = readme): readonly Shown[] {
  const shown = blocksOf(document).flatMap(({ language, text, output }) => {
    if (language === 'console') return consoleSession(text)
    const answers = output?.split('\n')
    const commands = text.split('\n').filter((line) => line.startsWith('curl '))
    return answers === undefined ? [] : commands.map((command, at) => ({ command, answer: answers[at] ?? '' }))
  })
  return shown.filter(({ command }) => command.startsWith('curl '))
}

/** The commands at the prompts of a console block. */
function consoleSession(text: string): readonly Shown[] {
  const parts = text.split(/^\$ /m).slice(1)
  return parts.map((part) => {
    const [command = '', ...answer] = part.trim().split('\n')
    return { command, answer: answer.join('\n') }
  })
}

/** Runs a curl line with the URL and the key of this service in place of the documented ones. @returns its output */
export async function answerTo({ command }: Shown, { url, key }: Pick<TestService, 'url' | 'key'>): Promise<string> {
  const here = command.replace('http://127.0.0.1:3000', url)
  const { stdout } = await promisify(execFile)('bash', ['-c', here], { env: { PATH: process.env['PATH'], KEY: key } })
  return stdout.trim()
}

/** The answer without the parts that differ between runs: ids, times and days. */
export function steadyAnswer(answer: string): string {
  return answer
    .replace(/"id":"chatcmpl-[^"]*"/g, '"id":"chatcmpl-…"')
    .replace(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, '…')
    .replace(/"(created|updated|at|last)":\d+/g, '"$1":0')
    .replace(/"(due|snoozed_until)":"[\d-]+"/g, '"$1":"…"')
    .replace(/token=[^"]+/g, 'token=…')
    .replace(/^200 "\d+"$/gm, '200 "…"')
}
