/** How often a test tries something at random: so often, and in the trial of that name ten times as often. */
export function often(count: number): number {
  return count * Number(process.env['TEST_OFTEN'] ?? 1)
}
