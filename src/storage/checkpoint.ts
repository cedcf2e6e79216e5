import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'

// This file runs on a worker thread (wal.ts), because a checkpoint would block the thread that serves requests.
const database = new Database(String(workerData), { fileMustExist: true })
const [done] = [database.pragma('wal_checkpoint(PASSIVE)')].flat()
database.close()
parentPort?.postMessage(done)
