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

/**
 * For glibc: buffers of 1 MiB and more go back to the system when they are freed, and the end of its heap beyond 16 MiB. Without it glibc takes ever larger ones, up to
 * 32 MB, for its own to keep, and keeps a hundred MB after a burst (docs/decisions/0023-bytes-in-flight.md).
 */
const allocator = { MALLOC_MMAP_THRESHOLD_: '1048576', MALLOC_TRIM_THRESHOLD_: '16777216' }

/**
 * For V8: a semi-space of new objects has 16 MB at most, where it may have 64 on a machine with much memory. There are three of them, and under load
 * they grow to that whatever the requests need (docs/decisions/0023-bytes-in-flight.md).
 */
const newObjects = '--max-semi-space-size=16'

/** Node calls the function new that takes the types out of the page's sources (`page/contents.ts`), in a warning. */
const quiet = '--disable-warning=ExperimentalWarning'

if (Number(process.versions.node.split('.')[0]) >= oldestMajor) {
  if (isToServe() && !hasAllocator()) beginAgain()
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

function isToServe() {
  const words = process.argv.slice(2)
  return words.length === 0 || words[0] === 'serve'
}

/** Whether the allocator is as it should be: as somebody wants it, as a parent has set it, or where there is no such thing. */
function hasAllocator() {
  return process.platform !== 'linux' || Object.keys(allocator).some((name) => name in process.env)
}

/** The environment in which the service runs. What somebody wants of V8 comes later, and so counts. */
function serviceEnvironment() {
  const options = process.env.NODE_OPTIONS
  return { ...allocator, ...process.env, NODE_OPTIONS: [newObjects, quiet, options].filter(Boolean).join(' ') }
}

/** Has this process run the same once more, with the settings of allocator and V8, which they read before anything else. */
function beginAgain() {
  const args = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  // It is new, and says so in a warning that is never shown: it would be once this turn is over.
  process.execve?.(process.execPath, args, serviceEnvironment())
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
  const child = spawn(node, [__filename, ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: serviceEnvironment(),
  })
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
