#!/usr/bin/env node
// The entry for any Node, in plain JavaScript that old Nodes understand. `main.ts` is a symbolic link to this
// file: Node resolves the link and runs a .cjs file. A Node before 22.18 would refuse a real .ts file without reading it
// (docs/decisions/0022-one-launcher.md).
'use strict'
const { spawn } = require('node:child_process')
const { existsSync } = require('node:fs')
const { join } = require('node:path')

const oldestMajor = 24
/** In a clone Node runs the TypeScript sources; the package contains them as plain JavaScript. */
const entry = existsSync(join(__dirname, 'entry.ts')) ? './entry.ts' : './entry.js'

/**
 * With these settings glibc returns freed buffers of 1 MiB and more to the system, and the free end of its heap beyond 16 MiB.
 * By default glibc raises the first threshold up to 32 MB, and keeps a hundred MB after a burst
 * (docs/decisions/0023-bytes-in-flight.md).
 */
const allocator = { MALLOC_MMAP_THRESHOLD_: '1048576', MALLOC_TRIM_THRESHOLD_: '16777216' }

/**
 * For V8: a semi-space of new objects has 16 MB at most; the default is up to 64 MB on a machine with much memory. There are
 * three semi-spaces, and under load they grow to the maximum whatever the requests need (docs/decisions/0023-bytes-in-flight.md).
 */
const newObjects = '--max-semi-space-size=16'

/** `page/contents.ts` calls `stripTypeScriptTypes`, and Node would warn that this function is experimental. */
const quiet = '--disable-warning=ExperimentalWarning'

if (Number(process.versions.node.split('.')[0]) >= oldestMajor) {
  if (isToServe() && !isPrepared()) restartInPlace()
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

/** Whether this process need not be replaced: it has the environment already, or without Linux there is no glibc to read it. */
function isPrepared() {
  return process.platform !== 'linux' || (process.env.NODE_OPTIONS ?? '').startsWith(`${newObjects} ${quiet}`)
}

/** The environment of the service. The operator's variables win: of two equal options Node takes the last. */
function serviceEnvironment() {
  const options = process.env.NODE_OPTIONS
  return { ...allocator, ...process.env, NODE_OPTIONS: [newObjects, quiet, options].filter(Boolean).join(' ') }
}

/** Executes the same command again in this process: glibc and V8 read their settings only at the very beginning. */
function restartInPlace() {
  const args = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  // Node would print the warning that execve is experimental after this turn of the event loop, so it is never printed.
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

/** npm runs a command in a shell, and a signal ends only the shell. So the service checks whether its parent still runs. */
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
