/*
 * Loaded into a service that a test spawns, by `node --expose-gc --import`. Every COLLECT_MS milliseconds it prints what
 * is in use after a full collection, in bytes: what grows there is kept, and is not only garbage not collected yet.
 */
const printing = setInterval(() => {
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  process.stdout.write(`in use: ${heapUsed + external}\n`)
}, Number(process.env['COLLECT_MS']))
printing.unref()
