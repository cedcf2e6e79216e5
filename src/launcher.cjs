#!/usr/bin/env node
// The entry for all versions of Node, in plain JavaScript that old versions understand. `main.ts` is a symbolic link to this
// file: Node resolves the link and runs a .cjs file. Node before 22.18 would refuse a real .ts file
// (docs/decisions/0022-one-launcher.md).
'use strict'
const { spawn } = require('node:child_process')
const { existsSync } = require('node:fs')
const { join } = require('node:path')

const oldestMajor = 24
/** A clone has the TypeScript sources, which Node runs directly. The package has plain JavaScript instead. */
const entry = existsSync(join(__dirname, 'entry.ts')) ? './entry.ts' : './entry.js'

// `page/contents.ts` calls `stripTypeScriptTypes`, and Node would warn that this function is experimental.
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') process.stderr.write(`${warning.stack}\n`)
})

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

/** The path of the Node that npm installed as an optional dependency. Undefined if npm installed none for this machine. */
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

/**
 * npm runs the service in a shell, and a signal to npm ends only the shell. So the service checks whether the shell still runs.
 */
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
