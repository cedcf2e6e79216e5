import { readFileSync } from 'node:fs'

/** The README as it is in the checkout. */
export const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')

/** A command that the README shows at a prompt, and the lines of answer below it. */
export interface Shown {
  readonly command: string
  readonly answer: string
}

/** The curl lines of the README's first session, in their order. */
export function shownCommands(): readonly Shown[] {
  const block = /```console\n([\s\S]*?)```/.exec(readme)?.[1] ?? ''
  return block
    .split(/^\$ /m)
    .slice(1)
    .map((text) => {
      const [command = '', ...answer] = text.trim().split('\n')
      return { command, answer: answer.join('\n') }
    })
    .filter(({ command }) => command.startsWith('curl '))
}

/** The answer without what differs from one run to the next. */
export function steadyAnswer(answer: string): string {
  return answer.replace(/"id":"chatcmpl-[^"]*"/g, '"id":"chatcmpl-…"').replace(/"created":\d+/g, '"created":0')
}
