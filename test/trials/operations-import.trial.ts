/*
 * Kills `accounts import`, its `--undo` and `accounts delete` 20 times each, over SQLite and PostgreSQL. Takes some five
 * minutes.
 */
process.env['TRANSFER_KILLS'] ??= '20'
await import('../plants/killed-transfers.test.ts')

export {}
