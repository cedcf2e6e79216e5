/*
 * The property tests with ten times as many runs as in `npm test`: kill -9, malformed requests, and calls of accounts that share
 * plants. This takes some ten minutes. With TEST_OFTEN=100 it runs for a night.
 */
process.env['TEST_OFTEN'] ??= '10'
await import('../service/durability.test.ts')
await import('../service/robustness.test.ts')
await import('../characters/isolation.test.ts')
await import('../plants/isolation.test.ts')
await import('../stores/isolation.contract.test.ts')

export {}
