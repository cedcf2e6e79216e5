/*
 * Loaded into a spawned service by `node --expose-gc --import`. Every COLLECT_MS milliseconds it prints the bytes
 * in use after a full collection, so that growth is a leak and not garbage that is not collected yet.
 */
const printing = setInterval(() => {
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  process.stdout.write(`in use: ${heapUsed + external}\n`)
}, Number(process.env['COLLECT_MS']))
printing.unref()
