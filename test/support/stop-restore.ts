import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/*
 * Loaded into a process with --import: numbers the calls of rmSync, renameSync and fsyncSync. At the call with the number STOP_AT
 * the process is killed with SIGKILL, or, if `fail:` stands before the number, the call fails. Without a number in STOP_AT
 * each call is printed on stderr before the call.
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
