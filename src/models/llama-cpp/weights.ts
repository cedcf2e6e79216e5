import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, rm, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { ProgressOutput } from '../../print.ts'
import type { Proxies } from '../../proxies.ts'
import type { LlamaCppSettings } from '../configuration/settings.ts'
import { download, WeightsError } from './download.ts'

/** The folder of weights, and how they are downloaded. */
export interface WeightsOptions {
  readonly folder: string
  readonly signal: AbortSignal
  readonly output: ProgressOutput
  readonly proxies: Proxies
}

/** Downloads in progress, by file. Two models with the same address share one download. */
const downloads = new Map<string, Promise<void>>()

/**
 * Downloads a model's GGUF file if it is missing, checks it, and returns its path. A relative path starts at the folder. If a
 * downloaded file fails the check, it is deleted. A file of the operator is never deleted.
 * @throws WeightsError that says why the file cannot be used; the signal's reason if it aborts; errors of the file system
 */
export async function findWeights(settings: LlamaCppSettings, options: WeightsOptions): Promise<string> {
  const url = /^https?:\/\//i.test(settings.model) ? URL.parse(settings.model) : null
  const file = url ? join(options.folder, fileName(url)) : resolve(options.folder, settings.model)
  if (url && !(await isThere(file))) await downloadOnce(url, file, options)
  try {
    await checkMagic(file)
    if (settings.sha256 !== undefined) await checkDigest(file, settings.sha256, options.signal)
  } catch (error) {
    if (url && error instanceof WeightsError) await rm(file, { force: true })
    throw error
  }
  return file
}

/**
 * The name of a downloaded file: a digest of the whole address, and the last part of the path so that people recognize the file.
 */
function fileName(url: URL): string {
  const digest = createHash('sha256').update(url.href).digest('hex').slice(0, 12)
  const name = basename(url.pathname)
    .replace(/[^\w.-]/g, '_')
    .slice(-100)
  return `${digest}-${name || 'model.gguf'}`
}

async function downloadOnce(url: URL, file: string, options: WeightsOptions): Promise<void> {
  await mkdir(options.folder, { recursive: true })
  const running = downloads.get(file) ?? download(url, file, options).finally(() => downloads.delete(file))
  downloads.set(file, running)
  await running
}

async function isThere(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  )
}

/** Checks that a file begins with `GGUF`. A download may be an HTML page that asks to log in. */
async function checkMagic(file: string): Promise<void> {
  const handle = await open(file, 'r').catch((cause: unknown) => {
    throw new WeightsError(`The file ${file} cannot be read.`, { cause })
  })
  try {
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(4) })
    if (buffer.toString('latin1', 0, bytesRead) !== 'GGUF') throw new WeightsError(`The file ${file} is not GGUF.`)
  } finally {
    await handle.close()
  }
}

async function checkDigest(file: string, expected: string, signal: AbortSignal): Promise<void> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file, { highWaterMark: 1024 ** 2 }), hash, { signal })
  const digest = hash.digest('hex')
  if (digest !== expected) throw new WeightsError(`The file ${file} has the SHA-256 ${digest} instead of ${expected}.`)
}
