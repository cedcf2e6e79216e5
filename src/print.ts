import { fstatSync } from 'node:fs'

/** The columns with Unix seconds. Tables show them as ISO 8601. */
const moments = new Set(['at', 'created', 'expires', 'revoked', 'suspended', 'last_used', 'last'])

/** The output for progress: stderr, or a fake in a test. */
export interface ProgressOutput {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

/** Stderr, for progress. */
export function progressOutput(): ProgressOutput {
  return process.stderr
}

/** Prints a command's data on stdout unchanged. If stdout is a terminal, characters that would control it are escaped. */
export function print(data: string | Uint8Array): void {
  process.stdout.write(shown(data))
}

/** Whether stdout is a file. A file takes all data immediately; the reader of a pipe may be slow. */
export function isPrintedToFile(): boolean {
  return fstatSync(process.stdout.fd).isFile()
}

/**
 * Prints data as `print` does, and waits until the data is written.
 * @returns false if the write failed: the reader may have ended
 */
export async function printAndWait(data: string): Promise<boolean> {
  return await new Promise((resolve) => void process.stdout.write(shown(data), (error) => resolve(!error)))
}

function shown(data: string | Uint8Array): string | Uint8Array {
  return process.stdout.isTTY ? printableLines(Buffer.from(data).toString('utf8')) : data
}

/** Prints a line on stdout. @returns the error of the write; null or undefined when the line is printed */
export async function printLineOrError(line: string): Promise<unknown> {
  return await new Promise((resolve) => void process.stdout.write(`${line}\n`, resolve))
}

/** Prints sentences for the operator on stderr, one per line. */
export function printNotice(sentences: string): void {
  process.stderr.write(`${printableLines(sentences)}\n`)
}

/** Stdin, in chunks. */
export function inputBytes(): AsyncIterable<Buffer> {
  return process.stdin
}

/** Prints rows on stdout: as JSON, or as a table with times as ISO 8601 and a dash for null. */
export function printRows(rows: readonly object[], json: true | undefined): void {
  if (json) printJson(rows)
  else print(tableOf(rows))
}

/**
 * Prints a value as JSON on stdout. Characters that would control a terminal are escaped, which does not change the parsed value.
 */
export function printJson(value: unknown): void {
  print(`${printableLines(JSON.stringify(value, null, 2))}\n`)
}

function tableOf(rows: readonly object[]): string {
  if (rows.length === 0) return ''
  const header = Object.keys(rows[0] ?? {})
  const lines = [
    header.map((name) => name.toUpperCase()),
    ...rows.map((row) => Object.entries(row).map(([name, value]) => cellOf(name, value))),
  ]
  const widths = header.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)))
  const padded = lines.map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  return padded.map((line) => `${line.trimEnd()}\n`).join('')
}

function cellOf(name: string, value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (moments.has(name) && typeof value === 'number') return new Date(value * 1000).toISOString()
  return printable(Array.isArray(value) ? value.join(',') : String(value))
}

/** Control characters and bidirectional controls. A line end matches as a whole, so that `printableLines` can keep it. */
const steering = /\r?\n|[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** A text that cannot control a terminal: control characters and bidirectional controls are escaped. */
export function printable(text: string): string {
  return text.replace(steering, (found) => [...found].map(spelledOut).join(''))
}

/** Escapes a text of several lines as `printable` does, but keeps the line ends. */
export function printableLines(text: string): string {
  return text.replace(steering, (found) => (found.endsWith('\n') ? found : spelledOut(found)))
}

function spelledOut(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
