/** The number of runs of a property test; ten times as many in the trial of that name. */
export function often(count: number): number {
  return count * Number(process.env['TEST_OFTEN'] ?? 1)
}
