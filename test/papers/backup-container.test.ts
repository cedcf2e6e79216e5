import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it, onTestFinished } from 'vitest'
import { compileCache, serveForThisTest } from '../support/command.ts'
import { composeFile } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'

it('the container "backup" makes its first backup as soon as there is a database, the next a day later, and ends at once', async () => {
  const { path: folder, remove } = temporaryFolder()
  onTestFinished(remove)
  const [programs, backups, data] = [join(folder, 'programs'), join(folder, 'backups'), join(folder, 'data')]
  for (const made of [programs, backups, data]) mkdirSync(made)
  // The image has the command in the same way. In place of `sleep`, a program prints its seconds and its process id, and waits.
  symlinkSync(join(projectFolder, 'src', 'launcher.cjs'), join(programs, 'conservatory'))
  writeFileSync(join(programs, 'sleep'), '#!/bin/sh\necho "$1 $$"\nexec tail -f /dev/null\n')
  chmodSync(join(programs, 'sleep'), 0o755)
  const [shell = '', ...words] = composeFile().services['backup']?.command ?? []
  const args = words.map((word) => word.replaceAll('$$', '$').replace('/backups', backups))
  const env = { PATH: [programs, process.env['PATH']].join(delimiter), DATA_DIR: data, ...compileCache }
  const container = spawn(shell, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
  const pauses = createInterface(container.stdout)[Symbol.asyncIterator]()
  const nextPause = async () => {
    const { value = '' } = await pauses.next()
    const [seconds, process] = String(value).split(' ').map(Number)
    return { seconds, process: process ?? 0 }
  }

  const first = await nextPause()
  expect([first.seconds, readdirSync(backups)]).toEqual([60, []])
  await serveForThisTest({ DATA_DIR: data })
  process.kill(first.process)
  const second = await nextPause()
  expect([second.seconds, readdirSync(backups)]).toEqual([
    86_400,
    [expect.stringMatching(/^conservatory-\d+T\d+Z\.db$/)],
  ])
  process.kill(second.process)
  const third = await nextPause()
  const exited = once(container, 'exit')
  container.kill('SIGTERM')
  expect(await exited).toEqual([null, 'SIGTERM'])
  process.kill(third.process)
})
