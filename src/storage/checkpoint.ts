import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'

// A thread of its own (wal.ts): what it does would hold the one that serves.
const database = new Database(String(workerData), { fileMustExist: true })
const [done] = [database.pragma('wal_checkpoint(PASSIVE)')].flat()
database.close()
parentPort?.postMessage(done)
