/* Kill -9 of `accounts import`, of `--undo` and of `accounts delete`, 20 times each, over SQLite and PostgreSQL. Some five minutes. */
process.env['TRANSFER_KILLS'] ??= '20'
await import('../plants/killed-transfers.test.ts')

export {}
