import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { runCommand } from '../../src/command-line.ts'
import { temporaryFolder } from './service.ts'

/** A mistyped command, its exit code, and its stderr. Its stdout is empty. */
export type Answer = readonly [typed: string, code: number, stderr: string]

/** Makes a test for each mistyped command: it checks the error message, and that the data folder has not changed. */
export function answersMistakes(answers: readonly Answer[]): void {
  it.each(answers)('%s', async (typed, code, stderr) => {
    const { path, remove } = temporaryFolder()
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      const spy = vi.spyOn(process[name], 'write').mockImplementation((text) => {
        said[name] += String(text)
        return true
      })
      onTestFinished(() => spy.mockRestore())
    }
    onTestFinished(remove)
    const environment = { DATA_DIR: join(path, 'data') }
    const serve = async () => {
      throw new Error('the service is started')
    }
    const found = await runCommand(typed.split(' '), environment, serve)
    expect({ code: found, ...said }).toStrictEqual({ code, stdout: '', stderr: `${stderr}\n` })
    expect(existsSync(environment.DATA_DIR)).toBe(false)
  })
}
