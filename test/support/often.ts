/** The number of runs of a property test. The trial `often` multiplies it by ten. */
export function often(count: number): number {
  return count * Number(process.env['TEST_OFTEN'] ?? 1)
}
