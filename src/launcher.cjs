#!/usr/bin/env node
// The entry for any Node: `main.ts` is a link to this file, since a Node before 22.18 refuses a file named .ts before it
// reads a line of it (docs/decisions/0022-one-launcher.md). Plain JavaScript that old Nodes understand.
'use strict'
const { spawn } = require('node:child_process')
const { existsSync } = require('node:fs')
const { join } = require('node:path')

const oldestMajor = 24
/** In a clone the sources, which Node runs as they are; in the package the same as plain JavaScript. */
const entry = existsSync(join(__dirname, 'entry.ts')) ? './entry.ts' : './entry.js'

if (Number(process.versions.node.split('.')[0]) >= oldestMajor) {
  import(entry).catch(fail)
  endWithNpm((signal) => process.kill(process.pid, signal))
} else {
  const node = installedNode()
  if (node === undefined)
    fail(
      new Error(
        `Conservatory needs Node ${oldestMajor} or newer, and this is ${process.version}. Run "npm ci" in its folder, which installs one beside it, or install Node ${oldestMajor}.`,
      ),
    )
  else runWith(node)
}

/** The path of the Node that npm installed as an optional dependency; undefined where there is none for this machine. */
function installedNode() {
  const platform = process.platform === 'win32' ? 'win' : process.platform
  for (const name of [`node-${platform}-${process.arch}`, `node-bin-${platform}-${process.arch}`]) {
    try {
      return join(require.resolve(`${name}/package.json`), '..', require(`${name}/package.json`).bin.node)
    } catch {
      // Not for this machine.
    }
  }
  return undefined
}

function runWith(node) {
  const child = spawn(node, [__filename, ...process.argv.slice(2)], { stdio: 'inherit' })
  const pass = (signal) => child.kill(signal)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, pass)
  endWithNpm(pass)
  child.on('error', (error) =>
    fail(new Error(`${node} cannot run here (${error.code}). Install Node ${oldestMajor} or newer.`)),
  )
  child.on('exit', (code, signal) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeListener(name, pass)
    if (signal === null) process.exitCode = code
    else process.kill(process.pid, signal)
  })
}

/** npm runs a command below a shell, which a signal ends alone: the service would go on, and hold its port. */
function endWithNpm(end) {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    end('SIGTERM')
  }, 500)
  watch.unref()
}

function fail(error) {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
