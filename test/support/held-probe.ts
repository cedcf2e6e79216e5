/*
 * Loaded into a service with --import: measures for how long the main thread holds the event loop, by its own CPU time,
 * so that a busy machine changes nothing. It asks the clock each millisecond at most, once in a turn of the loop: what a
 * turn takes beyond that is the stretch. On SIGWINCH it writes one line to stderr, and begins anew.
 */

/** What the probe tells: CPU milliseconds of the longest stretch and in all, and the process's memory in bytes. */
export interface Held {
  readonly longest: number
  readonly total: number
  readonly memory: number
}

const cpu = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

let begin = cpu()
let last = begin
let longest = 0
let memory = 0

function look(): void {
  const now = cpu()
  longest = Math.max(longest, now - last)
  last = now
}

setInterval(look, 1).unref()
setInterval(() => {
  memory = Math.max(memory, process.memoryUsage.rss())
}, 10).unref()

process.on('SIGWINCH', () => {
  look()
  const held: Held = { longest, total: last - begin, memory: Math.max(memory, process.memoryUsage.rss()) }
  process.stderr.write(`held ${JSON.stringify(held)}\n`)
  begin = cpu()
  last = begin
  longest = 0
  memory = 0
})
