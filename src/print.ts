import { fstatSync } from 'node:fs'

/** Cells that are Unix seconds, and shown to people as ISO 8601. */
const moments = new Set(['at', 'created', 'expires', 'revoked', 'suspended', 'last_used'])

/** Where progress is shown: standard error, or a test's stand-in for it. */
export interface ProgressOutput {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

/** Standard error, for progress. */
export function progressOutput(): ProgressOutput {
  return process.stderr
}

/** Prints a command's data on stdout, exactly as it is; a terminal gets it with all spelled out that would steer it. */
export function print(data: string | Uint8Array): void {
  process.stdout.write(shown(data))
}

/** Whether stdout is a file, which takes all at once; a pipe's reader may take its time. */
export function isPrintedToFile(): boolean {
  return fstatSync(process.stdout.fd).isFile()
}

/** Prints the same, and waits until it is taken. @returns whether it was: not by a reader that has ended */
export async function printAndWait(data: string): Promise<boolean> {
  return await new Promise((resolve) => void process.stdout.write(shown(data), (error) => resolve(!error)))
}

function shown(data: string | Uint8Array): string | Uint8Array {
  return process.stdout.isTTY ? printableLines(Buffer.from(data).toString('utf8')) : data
}

/** Prints a line on stdout. @returns what kept it from being printed; nothing when it is */
export async function printLineOrError(line: string): Promise<unknown> {
  return await new Promise((resolve) => void process.stdout.write(`${line}\n`, resolve))
}

/** Tells the operator a sentence or several, a line each, on stderr. */
export function printNotice(sentences: string): void {
  process.stderr.write(`${printableLines(sentences)}\n`)
}

/** Stdin, in pieces. */
export function inputBytes(): AsyncIterable<Buffer> {
  return process.stdin
}

/** Prints rows on stdout: as JSON, or as a table for people with times as ISO 8601 and nothing as a dash. */
export function printRows(rows: readonly object[], json: true | undefined): void {
  if (json) printJson(rows)
  else print(tableOf(rows))
}

/** Prints a value as JSON on stdout: what would steer a terminal is escaped in it, which reads back as the same. */
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

/** Control characters, and those that turn the direction of writing; the end of a line first, to be told from them. */
const steering = /\r?\n|[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** A text that steers no terminal: control characters, and those that turn the direction of writing, are spelled out. */
export function printable(text: string): string {
  return text.replace(steering, (found) => [...found].map(spelledOut).join(''))
}

/** The same for a text of several lines, whose ends stay. */
export function printableLines(text: string): string {
  return text.replace(steering, (found) => (found.endsWith('\n') ? found : spelledOut(found)))
}

function spelledOut(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
