import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'

const hasProc = existsSync('/proc/self/fd')

/** The resident memory of a process, MB. */
export function residentMegabytes(pid: number): number {
  const text = hasProc
    ? /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    : execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })
  return (Number(text) * 1024) / 1e6
}

/**
 * Milliseconds in which the main thread of a process was ready to run but no core was free, since the start of the process. It is
 * measured only on Linux; on other systems, and for a process that has ended, it is 0.
 */
export function queuedMs(pid: number): number {
  const path = `/proc/${pid}/schedstat`
  return existsSync(path) ? Number(readFileSync(path, 'utf8').split(' ')[1]) / 1e6 : 0
}

/** The numbers of a process's open sockets, and of its open files whose name contains a text. */
export function openDescriptors(pid: number, part: string): { readonly sockets: number; readonly files: number } {
  const names = hasProc ? namesFromProc(pid) : namesFromLsof(pid)
  return {
    sockets: names.filter((name) => name === 'socket').length,
    files: names.filter((name) => name.includes(part)).length,
  }
}

function namesFromProc(pid: number): readonly string[] {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).map((descriptor) => {
    try {
      return readlinkSync(`${folder}/${descriptor}`).replace(/^socket:.*/, 'socket')
    } catch {
      // The descriptor was closed after the folder was read.
      return ''
    }
  })
}

function namesFromLsof(pid: number): readonly string[] {
  // The output has a line for each field: p (process), f (descriptor), t (type), n (name).
  const lines = execFileSync('lsof', ['-a', '-p', String(pid), '-Ftn'], { encoding: 'utf8' }).split('\n')
  return lines.flatMap((line) => {
    if (line.startsWith('t')) return /^t(IPv4|IPv6|unix)$/.test(line) ? ['socket'] : []
    return line.startsWith('n') ? [line.slice(1)] : []
  })
}
