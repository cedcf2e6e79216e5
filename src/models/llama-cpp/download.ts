import { type FileHandle, open, readdir, rename, rm, statfs } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Response } from 'undici'
import { Outbound } from '../../outbound.ts'
import type { ProgressOutput } from '../../print.ts'
import type { Proxies } from '../../proxies.ts'
import { Progress } from './progress.ts'

const maxRedirects = 5

/** A failure of weights. The message may contain paths and addresses, so only the operator may read it. */
export class WeightsError extends Error {}

/**
 * Downloads a file under a temporary name in the same folder, and renames it when it is complete. If the server's strong ETag
 * shows that the file is the same, the download continues where an earlier attempt stopped.
 *
 * Only downloads follow redirects, because hubs of weights redirect to their storage. This is safe, because the address comes
 * from the operator and not from a request, and only the model reads the file. A redirect from https to http is not followed.
 * @throws WeightsError if the download fails; the signal's reason if it aborts; errors of the file system
 */
export async function download(
  url: URL,
  file: string,
  { proxies, ...options }: { readonly signal: AbortSignal; readonly output: ProgressOutput; readonly proxies: Proxies },
): Promise<void> {
  const outbound = new Outbound(proxies)
  try {
    await downloadBy(outbound, url, file, options)
  } finally {
    await outbound.close()
  }
}

async function downloadBy(
  outbound: Outbound,
  url: URL,
  file: string,
  { signal, output }: { readonly signal: AbortSignal; readonly output: ProgressOutput },
): Promise<void> {
  const part = await findPart(file)
  const start = part?.tag === undefined ? 0 : part.size
  const response = await request(outbound, url, part?.tag === undefined ? {} : { tag: part.tag, start }, signal)
  const isContinued = continues(response, start)
  if (response.status !== 200 && !isContinued) throw await refused(response, part, url)
  const done = isContinued ? start : 0
  const length = Number(response.headers.get('content-length') ?? 'NaN')
  const total = Number.isSafeInteger(length) ? done + length : undefined

  const path = `${file}.${process.pid}.${tagName(response.headers.get('etag'))}.part`
  if (part && part.path !== path) await (isContinued ? rename(part.path, path) : rm(part.path, { force: true }))
  const progress = new Progress(`Downloading ${basename(file)}`, done, total, output)
  const handle = await open(path, isContinued ? 'a' : 'w')
  try {
    await checkSpace(file, length)
    await writeBody(response, handle, progress)
    await checkSize(handle, total, url)
    await handle.sync()
  } catch (error) {
    signal.throwIfAborted()
    throw brokenOff(error, url)
  } finally {
    progress.end()
    await handle.close()
  }
  await rename(path, file)
}

function continues({ status, headers }: Response, start: number): boolean {
  return status === 206 && headers.get('content-range')?.startsWith(`bytes ${start}-`) === true
}

/** Cancels a response without a file. Deletes a partial file that the server refuses to continue. @returns the error */
async function refused(response: Response, part: Part | undefined, url: URL): Promise<WeightsError> {
  await response.body?.cancel()
  // With this partial file, the server would refuse the next attempt too.
  if (part && response.status === 416) await rm(part.path, { force: true })
  return new WeightsError(`${shown(url)} cannot be downloaded: its server answered ${response.status}.`)
}

async function writeBody({ body }: Response, handle: FileHandle, progress: Progress): Promise<void> {
  for await (const bytes of body ?? []) {
    await handle.write(bytes)
    progress.add(bytes.length)
  }
}

function brokenOff(error: unknown, url: URL): WeightsError {
  if (error instanceof WeightsError) return error
  return new WeightsError(`The download of ${shown(url)} broke off; the next attempt continues it or starts again.`, {
    cause: error,
  })
}

/** Sends the request. This function follows the redirects, and not `fetch`, because each redirect must be checked. */
async function request(
  outbound: Outbound,
  url: URL,
  resume: { readonly tag?: string; readonly start?: number },
  signal: AbortSignal,
): Promise<Response> {
  const headers = {
    // A compressed response cannot be continued, and its length is not the length of the file.
    'accept-encoding': 'identity',
    ...(resume.tag === undefined ? {} : { range: `bytes=${resume.start}-`, 'if-range': resume.tag }),
  }
  const { fetch } = await import('undici')
  let at = url
  for (let followed = 0; ; followed += 1) {
    const response = await fetch(at, {
      headers,
      redirect: 'manual',
      signal,
      dispatcher: await outbound.dispatcherFor(at),
    }).catch((cause: unknown) => {
      signal.throwIfAborted()
      throw new WeightsError(`${shown(url)} cannot be reached.`, { cause })
    })
    const location = response.headers.get('location')
    if (![301, 302, 303, 307, 308].includes(response.status) || location === null) return response
    await response.body?.cancel()
    const next = followRedirect(at, location)
    if (next === null) throw new WeightsError(`${shown(url)} redirects to where a download is not followed.`)
    if (followed === maxRedirects) throw new WeightsError(`${shown(url)} redirects again and again.`)
    at = next
  }
}

/** The address of a redirect; null if the redirect must not be followed. */
export function followRedirect(from: URL, location: string): URL | null {
  const to = URL.parse(location, from)
  if (to === null || !['http:', 'https:'].includes(to.protocol)) return null
  return from.protocol === 'https:' && to.protocol === 'http:' ? null : to
}

interface Part {
  readonly path: string
  readonly size: number
  /** The strong ETag of the whole file. */
  readonly tag?: string
}

/**
 * Finds a partial file that no other process is writing. Two processes (the service and `models check`) must never write to one
 * file. So the name of a partial file contains the id of its process, and the ETag.
 */
async function findPart(file: string): Promise<Part | undefined> {
  const start = `${basename(file)}.`
  for (const name of await readdir(dirname(file))) {
    const [, pid, tag] = (name.startsWith(start) && /^(\d+)\.([\w-]*)\.part$/.exec(name.slice(start.length))) || []
    if (pid === undefined || (Number(pid) !== process.pid && isRunning(Number(pid)))) continue
    const path = join(dirname(file), name)
    const handle = await open(path, 'r')
    const { size } = await handle.stat()
    await handle.close()
    return { path, size, ...(tag && size > 0 ? { tag: Buffer.from(tag, 'base64url').toString() } : {}) }
  }
  return undefined
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/**
 * A strong ETag as part of a file name. Empty if the ETag is weak, too long or absent, because then the download cannot be
 * continued.
 */
function tagName(tag: string | null): string {
  return tag === null || tag.startsWith('W/') || tag.length > 100 ? '' : Buffer.from(tag).toString('base64url')
}

async function checkSpace(file: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(file))
  if (bytes > bavail * bsize) {
    throw new WeightsError(`There is not enough space for ${file}: it takes ${bytes} bytes more.`)
  }
}

async function checkSize(handle: FileHandle, total: number | undefined, url: URL): Promise<void> {
  const { size } = await handle.stat()
  if (total !== undefined && size !== total) {
    throw new WeightsError(`The download of ${shown(url)} has ${size} bytes instead of ${total}.`)
  }
}

/** An address without its query and credentials, because these may be secret. */
function shown(url: URL): string {
  return `${url.origin}${url.pathname}`
}
