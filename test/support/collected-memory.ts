/*
 * Loaded into a spawned service by `node --expose-gc --import`. Every COLLECT_MS milliseconds it collects all garbage, and prints
 * the bytes that are still in use. So growth is a leak, and not garbage that is not collected yet.
 */
const printing = setInterval(() => {
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  process.stdout.write(`in use: ${heapUsed + external}\n`)
}, Number(process.env['COLLECT_MS']))
printing.unref()
