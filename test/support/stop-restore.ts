import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/*
 * Loaded into a process with --import: numbers the calls of a restore to the file system. At the call with the number STOP_AT
 * it kills the process with SIGKILL, or, if `fail:` stands before the number, lets the call fail. Without a number in STOP_AT
 * it prints each call on stderr before the call.
 */
const [, how, at] = /^(fail:)?(\d+)$/.exec(process.env['STOP_AT'] ?? '') ?? []
let calls = 0

function step(name: string): void {
  calls += 1
  if (at === undefined) fs.writeSync(2, `step ${calls} ${name}\n`)
  else if (calls === Number(at)) {
    if (how !== undefined) throw Object.assign(new Error('no room'), { code: 'ENOSPC', path: 'the disk' })
    process.kill(process.pid, 'SIGKILL')
  }
}

const { rmSync, renameSync, fsyncSync } = fs
fs.rmSync = (path, options) => {
  step('rm')
  rmSync(path, options)
}
fs.renameSync = (from, to) => {
  step('rename')
  renameSync(from, to)
}
fs.fsyncSync = (file) => {
  step('fsync')
  fsyncSync(file)
}
syncBuiltinESMExports()
